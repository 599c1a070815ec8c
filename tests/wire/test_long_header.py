"""Answering requests whose header is too long, by its ends alone."""

import json

import pytest

from epochmq.base.errors import PeerError
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import FLAG_ONEWAY, Command, encode_frame
from epochmq.wire.frame import END_BYTES, PREFIX_BYTES, LongHeader
from epochmq.wire.long_header import command_of, refusal_of

LONG = "x" * 5_000


def kept(header: bytes, *, binary: bool = False) -> LongHeader:
    return LongHeader(header[:END_BYTES], header[-END_BYTES:], len(header), binary)


def found(**fields: object) -> tuple[int, int, int]:
    """(code, opaque, flag) of a JSON header with these fields in this order."""
    command = command_of(kept(json.dumps(fields, separators=(",", ":")).encode()))
    return command.code, command.opaque, command.flag


def test_every_order_in_which_clients_write() -> None:
    ext = {"i": LONG}
    java = {"code": 310, "extFields": ext, "flag": 2, "language": "JAVA", "opaque": 7, "version": 1}
    assert found(**java) == (310, 7, 2)
    assert found(code=310, language="GO", version=1, opaque=7, flag=2, extFields=ext) == (310, 7, 2)
    assert found(extFields=ext, code=310, opaque=7, flag=2, remark=None) == (310, 7, 2)
    assert found(opaque=-5, extFields=ext, code=10) == (10, -5, 0)
    assert found(code=105, opaque=7, flag=1, remark=LONG) == (105, 7, 1)


def test_spaces_between_names_and_values() -> None:
    header = json.dumps({"code": 310, "extFields": {"i": LONG}, "opaque": 7}, indent=1).encode()
    assert command_of(kept(header)).opaque == 7


@pytest.mark.parametrize(
    "text",
    [
        LONG + '","opaque":1,"code":2,"flag":1,"',
        LONG + '{"opaque":1}',
        LONG + '},"opaque":1,"code":2}',
        '{"code":9,"opaque":1}' + LONG,
        LONG + "\\",
    ],
)
@pytest.mark.parametrize("last", [False, True])
def test_what_the_fields_hold_is_no_field_of_the_header(text: str, last: bool) -> None:
    own = {"code": 310, "opaque": 7}
    ext = {"extFields": {"code": "9", "i": text, "opaque": "8", "flag": "1"}}
    assert found(**(own | ext if last else ext | own)) == (310, 7, 0)


def test_numbers_among_the_fields_that_are_not_in_quotation_marks() -> None:
    """As fastjson's peers may write them."""
    ext = {"code": 9, "i": LONG, "opaque": 8, "flag": 1}
    assert found(code=310, extFields=ext, opaque=7) == (310, 7, 0)
    assert found(code=310, opaque=7, extFields=ext) == (310, 7, 0)


def test_the_binary_encoding() -> None:
    command = Command(200050, opaque=7, flag=FLAG_ONEWAY, ext={"i": LONG}, binary=True)
    header = encode_frame(command)[PREFIX_BYTES:]
    again = command_of(kept(header, binary=True))
    assert (again.code, again.opaque, again.flag, again.binary) == (200050, 7, FLAG_ONEWAY, True)


@pytest.mark.parametrize(
    "header",
    [
        b"x" * 5_000,
        b'{"extFields":{"i":"' + b"x" * 5_000 + b'"}}',
        b'{"code":310,"remark":"' + b"x" * 5_000 + b'"}',
        b'{"opaque":7,"remark":"' + b"x" * 5_000 + b'"}',
        b'{"code":310,"opaque":9999999999,"remark":"' + b"x" * 5_000 + b'"}',
    ],
)
def test_without_code_or_opaque_nothing_can_be_answered(header: bytes) -> None:
    with pytest.raises(PeerError, match=f"a header of {len(header)} bytes"):
        command_of(kept(header))


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (RequestCode.SEND_MESSAGE, ResponseCode.MESSAGE_ILLEGAL),
        (RequestCode.SEND_MESSAGE_V2, ResponseCode.MESSAGE_ILLEGAL),
        (RequestCode.SEND_BATCH_MESSAGE, ResponseCode.MESSAGE_ILLEGAL),
        (RequestCode.SEND_REPLY_MESSAGE_V2, ResponseCode.MESSAGE_ILLEGAL),
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.SYSTEM_ERROR),
        (31_999, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_a_send_is_answered_as_one_with_long_properties(code: int, answer: int) -> None:
    reply = refusal_of(Command(code), 300_000, 262_144)
    assert reply.code == answer
    assert reply.remark == "a header of 300000 bytes is longer than the 262144 that are allowed"
