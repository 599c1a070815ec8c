"""One-step reading agrees with the usual way, or steps aside."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import values

from epochmq.wire.command import Command, decode, encode_frame
from epochmq.wire.frame import PREFIX_BYTES
from epochmq.wire.header import decode_header, encode_header
from epochmq.wire.headers import fast_headers
from epochmq.wire.headers.pull_headers import PullHeader
from epochmq.wire.headers.send_headers import EndTransactionHeader, SendHeader, SendHeaderV2

JAVA_SEND = (
    b'{"code":310,"extFields":{"a":"g","b":"T","c":"TBW102","d":"4","e":"3","f":"0",'
    b'"g":"1700000000000","h":"0","i":"UNIQ_KEY\\u0001AB\\u0002","j":"0","k":"false","m":"false"},'
    b'"flag":0,"language":"JAVA","opaque":12345,"serializeTypeCurrentRPC":"JSON","version":399}'
)
DEFAULTS: dict[str, object] = {
    "properties": "",
    "reconsumeTimes": 0,
    "batch": False,
}


def header_of(code: int, ext: dict[str, str], **more: Any) -> bytes:
    return encode_frame(Command(code, ext=ext, **more))[PREFIX_BYTES:]


def same(quick: Any, slow: Any) -> None:
    """Every field of `quick` is what the usual way reads, absent ones as what they mean."""
    for name in quick.__struct_fields__:
        expected = getattr(slow, name)
        assert getattr(quick, name) == (DEFAULTS.get(name) if expected is None else expected)


@given(st.data(), st.sampled_from([(10, SendHeader), (310, SendHeaderV2), (320, SendHeaderV2)]))
def test_sends_agree_with_the_usual_way(data: st.DataObject, kind: tuple[int, Any]) -> None:
    code, cls = kind
    header = header_of(code, encode_header(data.draw(values(cls))), opaque=7, flag=2)
    quick = fast_headers.decode_hot(header)
    assert isinstance(quick, fast_headers.SendEnvelope)
    assert (quick.code, quick.opaque, quick.is_oneway, quick.version) == (code, 7, True, 413)
    same(quick.extFields, decode_header(cls, decode(header, False).ext))


@given(st.data(), st.sampled_from([11, 361]))
def test_pulls_agree_with_the_usual_way(data: st.DataObject, code: int) -> None:
    header = header_of(code, encode_header(data.draw(values(PullHeader))), opaque=-7)
    quick = fast_headers.decode_hot(header)
    assert isinstance(quick, fast_headers.AnyPullEnvelope)
    assert (quick.code, quick.opaque, quick.is_oneway) == (code, -7, False)
    same(quick.extFields, decode_header(PullHeader, decode(header, False).ext))


@given(st.data())
def test_ends_agree_with_the_usual_way(data: st.DataObject) -> None:
    header = header_of(37, encode_header(data.draw(values(EndTransactionHeader))), opaque=7, flag=2)
    quick = fast_headers.decode_hot(header)
    assert isinstance(quick, fast_headers.EndEnvelope)
    assert (quick.code, quick.opaque, quick.is_oneway) == (37, 7, True)
    same(quick.extFields, decode_header(EndTransactionHeader, decode(header, False).ext))


def test_a_header_as_java_writes_it() -> None:
    quick = fast_headers.decode_hot(JAVA_SEND)
    assert isinstance(quick, fast_headers.ShortSendEnvelope)
    assert quick.extFields.properties == "UNIQ_KEY\x01AB\x02"
    assert fast_headers.decode_hot(memoryview(JAVA_SEND)) == quick


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"\x00\x69\x00",
        JAVA_SEND.replace(b'"code":310', b'"code":34'),
        JAVA_SEND.replace(b'"code":310', b'"code":"310"'),
        JAVA_SEND.replace(b'"flag":0,', b'"flag":1,'),
        JAVA_SEND.replace(b'"e":"3"', b'"e":"003"'),
        JAVA_SEND.replace(b'"e":"3"', b'"e":"2147483648"'),
        JAVA_SEND.replace(b'"b":"T"', b'"b":1'),
        JAVA_SEND.replace(b'"b":"T",', b""),
        JAVA_SEND.replace(b'"m":"false"', b'"m":"no"'),
        JAVA_SEND.replace(b"12345", b"2147483648"),
        JAVA_SEND.replace(b'"T"', b'"\xff"'),
        JAVA_SEND.replace(b'"T"', b'"\x01"'),
        JAVA_SEND.replace(b'"T"', b'"\\ud800"'),
        b"[" * 100_000,
        b'{"code":310,"x":' + b"[" * 100_000,
    ],
)
def test_the_unusual_takes_the_usual_way(header: bytes) -> None:
    assert fast_headers.decode_hot(header) is None


@pytest.mark.parametrize(
    ("text", "number"), [(b'"1e3"', 1000), (b'"1E0"', 1), (b'"1.0"', 1), (b"1.0", 1), (b'"-0"', 0)]
)
def test_a_whole_number_in_another_notation_is_that_number(text: bytes, number: int) -> None:
    """Laxer than Java, and known to be: what the text says is what is taken, both ways."""
    header = JAVA_SEND.replace(b'"e":"3"', b'"e":' + text)
    quick = fast_headers.decode_hot(header)
    assert isinstance(quick, fast_headers.SendEnvelope)
    assert quick.extFields.queueId == number
    same(quick.extFields, decode_header(SendHeaderV2, decode(header, False).ext))


@pytest.mark.parametrize(
    "text", [b'"1.5"', b'"1e10"', b'"1e400"', b'"1e-3"', b'"NaN"', b'"0x1"', b'"1_0"', b'" 3"']
)
def test_what_is_no_whole_number_in_range_takes_the_usual_way(text: bytes) -> None:
    assert fast_headers.decode_hot(JAVA_SEND.replace(b'"e":"3"', b'"e":' + text)) is None


@pytest.mark.parametrize("code", [11, 361])
def test_a_pull_response_is_no_pull(code: int) -> None:
    ext = encode_header(PullHeader("g", "T", 0, 0, 32, 0, 0, 0, 0))
    assert fast_headers.decode_hot(header_of(code, ext)) is not None
    assert fast_headers.decode_hot(header_of(code, ext, flag=1)) is None
