"""Values of any header or body type, and what the tests of all families do with them."""

import functools
import inspect
from types import ModuleType
from typing import Any

import msgspec
from hypothesis import strategies as st

from epochmq.wire.bodies.body import Body, decode_body, encode_body
from epochmq.wire.command import Command, decode, encode_frame
from epochmq.wire.frame import FrameReader
from epochmq.wire.header import Header, decode_header, encode_header

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
FULL_TEXT = TEXT.filter(bool)


def header_classes(module: ModuleType) -> list[type[Header]]:
    """The headers that `module` defines."""
    return [
        item
        for _, item in sorted(inspect.getmembers(module, inspect.isclass))
        if issubclass(item, Header) and item.__module__ == module.__name__
    ]


def body_classes(module: ModuleType) -> list[type[Body]]:
    """The bodies that `module` defines."""
    return [
        item
        for _, item in sorted(inspect.getmembers(module, inspect.isclass))
        if issubclass(item, Body) and item.__module__ == module.__name__
    ]


@functools.cache
def values(cls: type[Any], text: st.SearchStrategy[str] = TEXT) -> st.SearchStrategy[Any]:
    """Any `cls`, optional fields there or not."""
    return _of(msgspec.inspect.type_info(cls), text)


def _of(info: Any, text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    kinds = msgspec.inspect
    if isinstance(info, kinds.Metadata):
        return _of(info.type, text)
    if isinstance(info, kinds.StrType):
        return text
    if isinstance(info, kinds.BoolType):
        return st.booleans()
    if isinstance(info, kinds.IntType):
        return st.integers(info.ge or -(2**63), 2**63 - 1 if info.le is None else info.le)
    if isinstance(info, kinds.FloatType):
        return st.floats(-1e9, 1e9)
    if isinstance(info, kinds.UnionType):
        first = next(t for t in info.types if not isinstance(t, kinds.NoneType))
        return _of(first, text)
    if isinstance(info, kinds.StructType):
        return _struct(info, text)
    return _container(info, text)


def _container(info: Any, text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    kinds = msgspec.inspect
    if isinstance(info, kinds.DictType):
        keys = st.integers(0, 99) if isinstance(info.key_type, kinds.IntType) else text
        return st.dictionaries(keys, _of(info.value_type, text), max_size=3)
    if isinstance(info, kinds.TupleType):
        return st.tuples(*(_of(item, text) for item in info.item_types))
    items = st.lists(_of(info.item_type, text), max_size=3)
    if isinstance(info, kinds.VarTupleType):
        return items.map(tuple)
    if isinstance(info, kinds.FrozenSetType):
        return items.map(frozenset)
    assert isinstance(info, kinds.ListType)
    return items


def _struct(info: Any, text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    required = {f.name: _of(f.type, text) for f in info.fields if f.required}
    optional = {f.name: _of(f.type, text) for f in info.fields if not f.required}
    fields = st.fixed_dictionaries(required, optional=optional)
    return fields.map(lambda chosen: info.cls(**chosen))


def check_header_trip(header: Header) -> None:
    """Through `extFields` and through whole frames of both encodings, nothing is lost."""
    ext = encode_header(header)
    assert decode_header(type(header), ext) == header
    for binary in (False, True):
        data = encode_frame(Command(1, ext=ext, binary=binary))
        (frame,) = FrameReader().feed(data)
        command = decode(frame.header, frame.binary)
        assert decode_header(type(header), command.ext) == header


def check_body_trip(body: Any) -> None:
    """Through JSON and back."""
    assert decode_body(type(body), encode_body(body)) == body
