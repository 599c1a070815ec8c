"""Parses Protobuf bodies: one message, with a descriptor set (`protoc --descriptor_set_out`)."""

import base64
import binascii
import json
from typing import Any

from epochmq.base.errors import UsageError
from epochmq.base.needs import need
from epochmq.spark.typed import ParseBody, Typing, Unparsable

TIMESTAMP = "google.protobuf.Timestamp"


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

    def parse(body: bytes) -> dict[str, Any]:
        message = kind()
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
