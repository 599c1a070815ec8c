"""Headers from and to extFields: what Java's parsers take, and what nobody takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import HeaderError
from epochmq.wire.header import I32, I64, Header, TopicHeader, decode_header, encode_header


class Sample(TopicHeader, rename={"short": "s"}):
    topic: str
    queueId: I32
    offset: I64 | None = None
    order: bool = False
    force: bool | None = None
    short: str | None = None


GOOD = {"topic": "T", "queueId": "1"}


def test_round_trip() -> None:
    header = Sample("T", 1, 2, True, False, "x", ns="n", nsd=True, bname="b", oway=False, lo=True)
    ext = encode_header(header)
    assert ext == {
        "topic": "T",
        "queueId": "1",
        "offset": "2",
        "order": "true",
        "force": "false",
        "s": "x",
        "ns": "n",
        "nsd": "true",
        "bname": "b",
        "oway": "false",
        "lo": "true",
    }
    assert decode_header(Sample, ext) == header
    assert encode_header(Sample("T", 1)) == {"topic": "T", "queueId": "1", "order": "false"}


@pytest.mark.parametrize(
    ("extra", "field", "value"),
    [
        ({"queueId": "007"}, "queueId", 7),
        ({"queueId": "+5"}, "queueId", 5),
        ({"queueId": " 5 "}, "queueId", 5),
        ({"queueId": "-0"}, "queueId", 0),
        ({"offset": ""}, "offset", None),
        ({"offset": "null"}, "offset", None),
        ({"offset": "-9223372036854775808"}, "offset", -(2**63)),
        ({"order": "TRUE"}, "order", True),
        ({"order": "yes"}, "order", False),
        ({"order": ""}, "order", False),
        ({"force": "true"}, "force", True),
        ({"force": "False"}, "force", False),
        ({"topic": ""}, "topic", ""),
        ({"topic": "", "queueId": "01"}, "topic", ""),
        ({"topic": "null"}, "topic", "null"),
        ({"s": "null"}, "short", "null"),
        ({"s": "null", "queueId": "01"}, "short", "null"),
        ({"AccessKey": "k", "Signature": "s"}, "lo", None),
    ],
)
def test_taken(extra: dict[str, str], field: str, value: object) -> None:
    assert getattr(decode_header(Sample, {**GOOD, **extra}), field) == value


@pytest.mark.parametrize(
    ("ext", "message"),
    [
        (None, "the header field topic is missing"),
        ({}, "the header field topic is missing"),
        ({"topic": "T"}, "the header field queueId is missing"),
        ({"topic": "T", "queueId": ""}, "the header field queueId is missing"),
        ({"topic": "T", "queueId": "x"}, "queueId is not an integer: 'x'"),
        ({"topic": "T", "queueId": "1.5"}, "queueId is not an integer"),
        ({"topic": "T", "queueId": "2147483648"}, "out of range"),
        ({**GOOD, "offset": "9223372036854775808"}, "out of range"),
        ({**GOOD, "offset": "9" * 400}, "offset is not an integer"),
        ({**GOOD, "queueId": "١"}, "queueId is not an integer"),
    ],
)
def test_refused(ext: dict[str, str] | None, message: str) -> None:
    with pytest.raises(HeaderError, match=message):
        decode_header(Sample, ext)


def test_an_empty_header_takes_anything() -> None:
    class Empty(Header):
        pass

    assert decode_header(Empty, None) == Empty()
    assert encode_header(Empty()) == {}


@pytest.mark.fuzz
@given(
    st.dictionaries(
        st.sampled_from(["topic", "queueId", "offset", "order", "force", "s", "nsd", "x"]),
        st.text(max_size=6)
        | st.sampled_from(["1", "-1", "true", "nan", "1e5", "0x1", "null", "1_0"]),
    )
)
def test_anything_gives_a_header_or_header_error(ext: dict[str, str]) -> None:
    try:
        header = decode_header(Sample, ext)
    except HeaderError:
        return
    assert type(header.queueId) is int
    assert type(header.order) is bool
