"""Bends parsed JSON towards the types it should have, for peers that are careless with them.

Other languages' clients write `null` for an empty list, numbers and booleans where texts are
expected, numbers as texts. Only used when the strict reading has failed.
"""

import re
from typing import Any

from msgspec import inspect

from epochmq.wire import json_tolerant

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_SEQUENCES = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)


def loosen(value: Any, info: inspect.Type) -> Any:
    """`value` (parsed JSON) made to fit `info` where it can be; what cannot be stays as it is."""
    if isinstance(info, inspect.UnionType):
        kinds = [t for t in info.types if not isinstance(t, inspect.NoneType)]
        return None if value is None else loosen(value, kinds[0])
    if isinstance(info, inspect.StructType):
        return _struct(value, info) if isinstance(value, dict) else value
    if isinstance(info, _SEQUENCES):
        return _items(value, info.item_type) if isinstance(value, list) else value
    if isinstance(info, inspect.DictType):
        return _map(value, info.value_type) if isinstance(value, dict) else value
    return _scalar(value, info)


def text_of(value: Any) -> str:
    """A parsed JSON value as text: itself, `true`, a number in decimal, compact JSON."""
    if isinstance(value, str):
        return value
    return json_tolerant.dumps(value).decode()


def _struct(value: dict[str, Any], info: inspect.StructType) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for field in info.fields:
        item = value.get(field.encode_name)
        if item is not None:
            result[field.encode_name] = loosen(item, field.type)
    return result


def _items(value: list[Any], info: inspect.Type) -> list[Any]:
    return [loosen(item, info) for item in value if item is not None and not _is_reference(item)]


def _map(value: dict[str, Any], info: inspect.Type) -> dict[str, Any]:
    return {
        key: loosen(item, info)
        for key, item in value.items()
        if item is not None and not _is_reference(item)
    }


def _is_reference(value: Any) -> bool:
    """fastjson's mark for "the same object as above"; left out, not followed."""
    return isinstance(value, dict) and list(value) == ["$ref"]


def _scalar(value: Any, info: inspect.Type) -> Any:
    if isinstance(info, inspect.StrType):
        return text_of(value)
    if isinstance(info, inspect.IntType):
        return _integer(value)
    if isinstance(info, inspect.BoolType):
        return value.strip().lower() == "true" if isinstance(value, str) else bool(value)
    return value


def _integer(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value)
    return value
