"""Protobuf bodies to columns, by a descriptor set."""

import base64
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from epochmq.base.errors import UsageError
from epochmq.spark.typed import Typing, Unparsable
from epochmq.spark.typed_protobuf import fields, parser

F = descriptor_pb2.FieldDescriptorProto


def descriptor_set() -> descriptor_pb2.FileDescriptorSet:
    """message Flight { string carrier; optional double delay; Timestamp at; ... }"""
    file = descriptor_pb2.FileDescriptorProto(name="f.proto", package="air", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    state = file.enum_type.add(name="State")
    state.value.add(name="OPEN", number=0)
    state.value.add(name="CLOSED", number=1)
    flight = file.message_type.add(name="Flight")
    optional = F.LABEL_OPTIONAL
    flight.field.add(name="carrier", number=1, type=F.TYPE_STRING, label=optional)
    flight.oneof_decl.add(name="_delay")
    flight.field.add(
        name="delay", number=2, type=F.TYPE_DOUBLE, label=optional, oneof_index=0,
        proto3_optional=True,
    )  # fmt: skip
    stamp = ".google.protobuf.Timestamp"
    flight.field.add(name="at", number=3, type=F.TYPE_MESSAGE, type_name=stamp, label=optional)
    flight.field.add(name="legs", number=4, type=F.TYPE_INT32, label=F.LABEL_REPEATED)
    flight.field.add(
        name="state", number=5, type=F.TYPE_ENUM, type_name=".air.State", label=optional
    )
    flight.field.add(name="big", number=6, type=F.TYPE_UINT64, label=optional)
    flight.field.add(name="raw", number=7, type=F.TYPE_BYTES, label=optional)
    return descriptor_pb2.FileDescriptorSet(file=[file])


def typing(message: str = "air.Flight") -> Typing:
    text = base64.b64encode(descriptor_set().SerializeToString()).decode()
    return Typing("protobuf", text, message)


def flight(**values: Any) -> bytes:
    pool = descriptor_pool.DescriptorPool()
    from google.protobuf import timestamp_pb2

    known = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(known)
    pool.Add(known)
    pool.Add(descriptor_set().file[0])
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("air.Flight"))
    return bytes(kind(**values).SerializeToString())


def test_types() -> None:
    assert {each.name: str(each.type) for each in fields(typing())} == {
        "carrier": "string",
        "delay": "double",
        "at": "timestamp[us, tz=UTC]",
        "legs": "string",
        "state": "string",
        "big": "string",
        "raw": "binary",
    }


def test_values() -> None:
    body = flight(
        carrier="UA", delay=0.0, at={"seconds": 5, "nanos": 7000}, legs=[1, 2], state=1,
        big=2**64 - 1, raw=b"\x00",
    )  # fmt: skip
    assert parser(typing())(body) == {
        "carrier": "UA",
        "delay": 0.0,
        "at": 5_000_007,
        "legs": "[1,2]",
        "state": "CLOSED",
        "big": str(2**64 - 1),
        "raw": b"\x00",
    }
    unset = parser(typing())(b"")
    assert unset == {"carrier": "", "legs": "[]", "state": "OPEN", "big": "0", "raw": b""}


def test_what_does_not_fit() -> None:
    with pytest.raises(Unparsable, match=r"no air\.Flight"):
        parser(typing())(b"\xff\xff")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Typing("protobuf", "%%%", "a"), "cannot be used"),
        (Typing("protobuf", base64.b64encode(b"\xff\xff").decode(), "a"), "not a descriptor set"),
        (typing("air.Train"), r"no message 'air\.Train' in the descriptor set; there are air\.F"),
    ],
)
def test_bad_schemas(change: Typing, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        fields(change)
