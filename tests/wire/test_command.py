"""Commands: golden frames, both encodings, and what sloppy peers send."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import FULL_TEXT

from epochmq.base.errors import PeerError, UsageError
from epochmq.base.limits import (
    ANSWER_HEADER_BYTES_MAX,
    EXT_FIELDS_MAX,
    FRAME_BYTES_MAX,
    HEADER_BYTES_MAX,
    REMARK_BYTES_MAX,
)
from epochmq.wire import command
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Reply, decode, encode_frame
from epochmq.wire.frame import FrameReader
from epochmq.wire.headers.group_headers import GetConsumerListHeader

GOLDEN_JSON = (
    b"\x00\x00\x00\x80\x00\x00\x00\x7c"
    b'{"code":105,"extFields":{"topic":"T1"},"flag":0,"language":"JAVA","opaque":1,'
    b'"serializeTypeCurrentRPC":"JSON","version":413}'
)
GOLDEN_BINARY = bytes.fromhex(
    "00000026010000220069 00 019d 00000001 00000000 00000000 0000000d 0005 746f706963 00000002 5431"
)
INT32 = st.integers(-(2**31), 2**31 - 1)


def fields(cmd: Command) -> tuple[object, ...]:
    return (
        cmd.code,
        cmd.language,
        cmd.version,
        cmd.opaque,
        cmd.flag,
        cmd.remark,
        cmd.ext,
        bytes(cmd.body),
        cmd.binary,
    )


def read(data: bytes) -> Command:
    (frame,) = FrameReader().feed(data)
    return decode(frame.header, frame.binary, frame.body)


@pytest.mark.parametrize(("golden", "binary"), [(GOLDEN_JSON, False), (GOLDEN_BINARY, True)])
def test_golden_frames(golden: bytes, binary: bool) -> None:
    cmd = Command(105, language="JAVA", opaque=1, ext={"topic": "T1"}, binary=binary)
    assert encode_frame(cmd) == golden
    assert fields(read(golden)) == fields(cmd)


@given(
    code=st.integers(-1000, 3000),
    version=st.integers(0, 0x7FFF),
    opaque=INT32,
    flag=st.integers(0, 3),
    remark=st.none() | FULL_TEXT,
    ext=st.none() | st.dictionaries(FULL_TEXT, FULL_TEXT, min_size=1, max_size=5),
    body=st.binary(max_size=50),
    binary=st.booleans(),
    cut=st.integers(0, 400),
)
def test_round_trip_split_anywhere(cut: int, code: int, **rest: Any) -> None:
    cmd = Command(code, **rest)
    data = encode_frame(cmd)
    reader = FrameReader()
    frames = reader.feed(data[:cut]) + reader.feed(data[cut:])
    (frame,) = frames
    assert fields(decode(frame.header, frame.binary, frame.body)) == fields(cmd)


def test_property_separators_are_escaped_and_other_alphabets_are_not() -> None:
    data = encode_frame(Command(310, ext={"i": "K\x01v\x02", "b": "тема"}))
    assert b'"i":"K\\u0001v\\u0002"' in data
    assert "тема".encode() in data


def test_every_request_code_passes_both_encodings() -> None:
    for code in RequestCode:
        for binary in (False, True):
            assert read(encode_frame(Command(code, binary=binary))).code == code


def test_request() -> None:
    cmd = command.request(38, GetConsumerListHeader("g"), b"x", oneway=True)
    assert (cmd.code, cmd.ext, cmd.body) == (38, {"consumerGroup": "g"}, b"x")
    assert cmd.is_oneway
    assert not cmd.is_response
    again = command.request(38)
    assert not again.is_oneway
    again.mark_oneway()
    assert again.is_oneway
    assert command.request(38, {"a": "b"}).ext == {"a": "b"}


@pytest.mark.parametrize("binary", [False, True])
def test_a_response_mirrors_opaque_and_encoding(binary: bool) -> None:
    to = Command(38, opaque=-7, binary=binary, flag=0)
    cmd = command.response(to, ResponseCode.SYSTEM_ERROR, "why", {"a": "b"}, b"x")
    back = read(encode_frame(cmd))
    assert fields(back) == (1, "PYTHON", 413, -7, 1, "why", {"a": "b"}, b"x", binary)
    assert back.is_response


def test_remarks_are_cut_and_made_safe() -> None:
    assert len(command.cut_remark("é" * REMARK_BYTES_MAX).encode()) == REMARK_BYTES_MAX
    assert command.cut_remark("a" + "é" * REMARK_BYTES_MAX).endswith("é")
    assert command.cut_remark("bad \ud800") == "bad ?"


def test_encode_reply_leaves_chunks_alone() -> None:
    to = Command(11, opaque=3)
    chunks = [memoryview(b"ab"), b"c"]
    head, *rest = command.encode_reply(to, Reply(0, "FOUND", body=chunks))
    assert [id(chunk) for chunk in rest] == [id(chunk) for chunk in chunks]
    assert read(bytes(head) + b"abc").body == b"abc"
    assert command.encode_reply(to, Reply(body=bytearray(b"z")))[1:] == [bytearray(b"z")]


def test_too_large_to_send() -> None:
    with pytest.raises(UsageError, match="exceeds a frame"):
        command.encode_head(Command(10), FRAME_BYTES_MAX)
    with pytest.raises(UsageError, match="header of"):
        encode_frame(Command(10, ext={"i": "x" * HEADER_BYTES_MAX}))


def test_only_an_answer_may_have_a_long_header() -> None:
    ext = {"msgId": "0" * (HEADER_BYTES_MAX + 1)}
    (raw,) = FrameReader(ANSWER_HEADER_BYTES_MAX).feed(encode_frame(Command(0, flag=1, ext=ext)))
    assert decode(raw.header, raw.binary).ext == ext
    with pytest.raises(UsageError, match=f"exceeds {HEADER_BYTES_MAX}"):
        encode_frame(Command(0, ext=ext))


def test_repr_has_no_body() -> None:
    assert repr(Command(10, body=b"secret")).endswith("body=6 bytes>")
    assert repr(Command(10, flag=1)).startswith("<response")
    assert repr(Command(10, flag=2)).startswith("<oneway")
    assert repr(HELD) == "HELD"


def test_repr_is_short_whatever_the_peer_sent() -> None:
    ext = {str(number): "\x01" * 60_000 for number in range(256)}
    assert len(repr(Command(10, ext=ext, remark="a." * 30_000))) < 16 * 130 + 500


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"code":"105"}', {"code": 105}),
        ('{"code":105.0}', {"code": 105}),
        ('{"code":105}', {"flag": 0, "version": 0, "opaque": 0, "ext": None, "language": "OTHER"}),
        ('{"code":1,"language":9}', {"language": "GO"}),
        ('{"code":1,"language":99}', {"language": "OTHER"}),
        ('{"code":1,"language":"KLINGON"}', {"language": "OTHER"}),
        ('{"code":1,"language":null,"flag":null}', {"language": "OTHER", "flag": 0}),
        ('{"code":1,"language":"CPP","opaque":"0012"}', {"language": "CPP", "opaque": 12}),
        ('{"code":1,"language":[]}', {"language": "OTHER"}),
        ('{"code":1,"flag":true}', {"flag": 1}),
        ('{"code":1,"remark":7}', {"remark": "7"}),
        ('{"code":1,"remark":null,"new":{"x":[1]}}', {"remark": None}),
        ('{"code":1,"extFields":null}', {"ext": None}),
        ('{"code":1,"extFields":{}}', {"ext": {}}),
        (
            '{"code":1,"extFields":{"a":1,"b":true,"c":null,"d":{"e":[1]},"f":"s","g":1.5}}',
            {"ext": {"a": "1", "b": "true", "d": '{"e":[1]}', "f": "s", "g": "1.5"}},
        ),
        ('{"code":1,"extFields":{"i":"a\x01b"}}', {"ext": {"i": "a\x01b"}}),
        ('{"code":1,"extFields":{1:"a"}}', {"ext": {"1": "a"}}),
    ],
)
def test_sloppy_json_headers(text: str, expected: dict[str, object]) -> None:
    cmd = decode(text.encode(), False)
    assert {name: getattr(cmd, name) for name in expected} == expected


def test_ill_formed_utf8_is_replaced() -> None:
    assert decode(b'{"code":1,"extFields":{"a":"\xff"}}', False).ext == {"a": "�"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        "{}",
        '{"code":null}',
        '{"code":"x"}',
        '{"code":[]}',
        '{"code":2147483648}',
        '{"code":1,"opaque":1e400}',
        '{"code":1,"opaque":-2147483649}',
        '{"code":1,"extFields":[]}',
        '{"code":1,"extFields":' + '{"a":' * 50 + "1" + "}" * 51,
    ],
)
def test_garbage_json_headers(text: str) -> None:
    with pytest.raises(PeerError):
        decode(text.encode(), False)


@pytest.mark.parametrize("binary", [False, True])
def test_too_many_ext_fields(binary: bool) -> None:
    ext = {str(n): "v" for n in range(EXT_FIELDS_MAX + 1)}
    data = encode_frame(Command(1, ext=ext, binary=binary))
    with pytest.raises(PeerError, match="ext fields"):
        read(data)


@pytest.mark.fuzz
@given(st.data())
def test_damaged_headers_give_a_command_or_peer_error(data: st.DataObject) -> None:
    golden = bytearray(data.draw(st.sampled_from([GOLDEN_JSON[8:], GOLDEN_BINARY[8:]])))
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(golden)))
        golden[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    for binary in (False, True):
        try:
            cmd = decode(golden, binary)
        except PeerError:
            continue
        assert cmd.ext is None or all(type(v) is str for v in cmd.ext.values())
        encode_frame(cmd)


def test_json_types_of_msgspec_are_as_assumed() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b"1", type=str, strict=False)
