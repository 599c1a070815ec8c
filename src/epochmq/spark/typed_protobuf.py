"""Parses Protobuf bodies: one message, with a descriptor set (`protoc --descriptor_set_out`).

With a registry, a body begins with the number of its schema. Behind it are the indexes of its
message in that schema, as Confluent's serializers write them, or the name of the message, as
Apicurio's own serializers do. The message must be the one of the columns, and is read with their
schema: fields have the same numbers in all versions.
"""

import base64
import binascii
import json
from typing import Any

from epochmq.base.errors import NotFound, UsageError
from epochmq.base.needs import need
from epochmq.spark.protobuf_source import messages_by_index
from epochmq.spark.schema_registry import SchemaRegistry
from epochmq.spark.typed import ParseBody, Typing, Unparsable

TIMESTAMP = "google.protobuf.Timestamp"
_INDEXES_MAX = 64
_VARINT_BYTES_MAX = 5
_REF_NAME = 0x0A
"""The tag of the field `name`, number 1, of Apicurio's `Ref`."""


def fields(typing: Typing) -> list[Any]:
    """Return a column for each field; repeated and nested values become JSON text."""
    pa = need("pyarrow", "spark")
    found = _message_class(typing).DESCRIPTOR.fields
    return [pa.field(each.name, _arrow(each)) for each in found]


def parser(typing: Typing) -> ParseBody:
    """Return a parser; an unset field with presence is null, others have their defaults."""
    kind = _message_class(typing)
    decode_error = need("google.protobuf.message", "typed").DecodeError
    columns = [(each, _reader(each)) for each in kind.DESCRIPTOR.fields]

    registry = typing.registry
    payload = (lambda body: body) if registry is None else _MessagesByNumber(registry, typing).split

    def parse(body: bytes) -> dict[str, Any]:
        message = kind()
        body = payload(body)
        try:
            message.ParseFromString(body)
        except decode_error as error:
            raise Unparsable(f"no {typing.message}: {error}") from None
        return {
            field.name: read(message)
            for field, read in columns
            if not field.has_presence or message.HasField(field.name)
        }

    return parse


def first_message(schema: str) -> str:
    """Return the full name of the first message of the last file of a descriptor set in base 64.

    Raises `UsageError` if there is none.
    """
    try:
        return messages_by_index(schema)[0,]
    except (KeyError, IndexError):
        raise UsageError("the Protobuf schema has no message") from None


class _MessagesByNumber:
    """Finds which message a body has, by the schemas of a registry."""

    def __init__(self, registry: SchemaRegistry, typing: Typing) -> None:
        self._registry = registry
        self._wanted = typing.message
        self._known: dict[int, dict[tuple[int, ...], str]] = {}
        """Full names of messages by their indexes, by the number of the schema."""

    def split(self, body: bytes) -> bytes:
        """Return the message of a body without what is before it."""
        found = self._registry.split(body)
        if found is None:
            raise Unparsable("the body does not begin with the number of a schema")
        number, rest = found
        if number not in self._known:
            self._known[number] = self._ask(number)
        messages = self._known[number]
        if self._registry.names_message:
            given, payload = _message_name(rest)
            of_file = (name for indexes, name in messages.items() if len(indexes) == 1)
            name = next((name for name in of_file if name.rpartition(".")[2] == given), None)
        else:
            indexes, payload = _indexes(rest)
            name, given = messages.get(indexes), str(list(indexes))
        if name is None:
            raise Unparsable(f"schema {number} of the registry has no message {given}")
        if name != self._wanted:
            raise Unparsable(f"the body is a {name}, not a {self._wanted}")
        return payload

    def _ask(self, number: int) -> dict[tuple[int, ...], str]:
        try:
            return messages_by_index(self._registry.protobuf_by_id(number))
        except NotFound as error:
            raise Unparsable(str(error)) from None


def _indexes(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """Return the indexes of a message and the bytes behind them.

    There are their number and then each of them, as variable-length integers with the sign in the
    lowest bit. One byte 0 stands for the first message.
    """
    count, at = _varint(data, 0)
    if count == 0:
        return (0,), data[at:]
    if not 0 < count <= _INDEXES_MAX:
        raise Unparsable(f"{count} indexes of a message before the body")
    found = []
    for _ in range(count):
        index, at = _varint(data, at)
        found.append(index)
    return tuple(found), data[at:]


def _message_name(data: bytes) -> tuple[str, bytes]:
    """Return the name of a message and the bytes behind it.

    Apicurio's serializers write a message of one field, the name without its package, behind its
    length (`Ref`, written delimited).
    """
    size, at = _length(data, 0)
    ref, payload = data[at : at + size], data[at + size :]
    if len(ref) < size or size < 2 or ref[0] != _REF_NAME:
        raise Unparsable("the name of a message before the body is cut off or malformed")
    length, start = _length(ref, 1)
    if start + length != size:
        raise Unparsable("the name of a message before the body is cut off or malformed")
    return ref[start:].decode("utf-8", "replace"), payload


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the integer with a sign that begins at `at`, and where it ends."""
    value, end = _length(data, at)
    return (value >> 1) ^ -(value & 1), end


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Return the integer without a sign that begins at `at`, and where it ends."""
    value = 0
    for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
        if at >= len(data):
            break
        value |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
    raise Unparsable("the indexes or the name of the message before the body are cut off")


def _message_class(typing: Typing) -> Any:
    descriptors = need("google.protobuf.descriptor_pb2", "typed")
    pool = need("google.protobuf.descriptor_pool", "typed").DescriptorPool()
    factory = need("google.protobuf.message_factory", "typed")
    files = descriptors.FileDescriptorSet()
    try:
        files.ParseFromString(base64.b64decode(typing.schema, validate=True))
        _add_all(pool, list(files.file))
    except (binascii.Error, TypeError, ValueError) as error:
        raise UsageError(f"the descriptor set cannot be used: {error}") from None
    except need("google.protobuf.message", "typed").DecodeError:
        raise UsageError(
            "the file is not a descriptor set: make one by"
            " protoc --include_imports --descriptor_set_out"
        ) from None
    try:
        return factory.GetMessageClass(pool.FindMessageTypeByName(typing.message))
    except KeyError:
        names = [f"{f.package}.{m.name}".lstrip(".") for f in files.file for m in f.message_type]
        raise UsageError(
            f"there is no message '{typing.message}' in the descriptor set; there are"
            f" {', '.join(names[:20])}"
        ) from None


def _add_all(pool: Any, files: list[Any]) -> None:
    """Add files in the order of their imports, including missing ones of Google's own."""
    known = {each.name: each for each in files}
    added: set[str] = set()

    def add(name: str) -> None:
        if name in added:
            return
        added.add(name)
        file = known.get(name) or _well_known(name)
        for each in file.dependency:
            add(each)
        pool.Add(file)

    for each in files:
        add(each.name)


def _well_known(name: str) -> Any:
    """Return one of Google's own files, which need not be in the set."""
    descriptors = need("google.protobuf.descriptor_pb2", "typed")
    if not name.startswith("google/protobuf/"):
        raise ValueError(f"{name} is missing: make the set with --include_imports")
    module = need(name.removesuffix(".proto").replace("/", ".") + "_pb2", "typed")
    file = descriptors.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    return file


def _is_nested(field: Any) -> bool:
    return bool(field.is_repeated) or (field.message_type is not None and not _is_time(field))


def _is_map(field: Any) -> bool:
    kind = field.message_type
    return kind is not None and bool(kind.GetOptions().map_entry)


def _is_time(field: Any) -> bool:
    return field.message_type is not None and field.message_type.full_name == TIMESTAMP


def _arrow(field: Any) -> Any:
    pa = need("pyarrow", "spark")
    if _is_nested(field) or field.enum_type is not None:
        return pa.string()
    if _is_time(field):
        return pa.timestamp("us", tz="UTC")
    by_type = {
        field.CPPTYPE_BOOL: pa.bool_(),
        field.CPPTYPE_INT32: pa.int32(),
        field.CPPTYPE_INT64: pa.int64(),
        field.CPPTYPE_UINT32: pa.int64(),
        # Half of these values exceed any signed type, and Delta and Iceberg have no unsigned type.
        field.CPPTYPE_UINT64: pa.string(),
        field.CPPTYPE_FLOAT: pa.float32(),
        field.CPPTYPE_DOUBLE: pa.float64(),
    }
    if field.cpp_type in by_type:
        return by_type[field.cpp_type]
    return pa.binary() if field.type == field.TYPE_BYTES else pa.string()


def _reader(field: Any) -> Any:
    """Return a function from a message to the column's value."""
    name = field.name
    if _is_nested(field):
        to_json = need("google.protobuf.json_format", "typed").MessageToJson
        return lambda message: _as_json(to_json, message, field)
    if _is_time(field):
        return lambda message: _time(getattr(message, name))
    if field.enum_type is not None:
        names = field.enum_type.values_by_number
        return lambda message: _enum(names, getattr(message, name))
    if field.cpp_type == field.CPPTYPE_UINT64:
        return lambda message: str(getattr(message, name))
    return lambda message: getattr(message, name)


def _time(value: Any) -> int:
    return int(value.seconds * 1_000_000 + value.nanos // 1000)


def _enum(names: Any, number: int) -> str:
    return names[number].name if number in names else str(number)


def _as_json(to_json: Any, message: Any, field: Any) -> str:
    """Return the field's part of the message's JSON."""
    one = type(message)()
    if field.is_repeated:
        getattr(one, field.name).MergeFrom(getattr(message, field.name))
    else:
        getattr(one, field.name).CopyFrom(getattr(message, field.name))
    found = json.loads(to_json(one, preserving_proto_field_name=True))
    empty: object = {} if _is_map(field) else []
    return json.dumps(found.get(field.name, empty), sort_keys=True, separators=(",", ":"))
