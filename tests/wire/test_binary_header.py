"""The binary header: layout, bounds, and garbage."""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import FULL_TEXT

from epochmq.base.errors import PeerError, UsageError
from epochmq.wire.binary_header import BinaryHeader, decode, encode

INT32 = st.integers(-(2**31), 2**31 - 1)
GOLDEN = bytes.fromhex("006900019d0000000100000000000000000000000d0005746f706963000000025431")


def header(
    code: int = 105,
    language: str = "JAVA",
    version: int = 413,
    opaque: int = 1,
    flag: int = 0,
    remark: str | None = None,
    ext: dict[str, str] | None = None,
) -> BinaryHeader:
    return BinaryHeader(code, language, version, opaque, flag, remark, ext)


def test_golden_vector() -> None:
    fields = header(ext={"topic": "T1"})
    assert encode(fields) == GOLDEN
    assert decode(GOLDEN) == fields


@given(
    st.builds(
        BinaryHeader,
        st.integers(-0x8000, 0x7FFF).filter(lambda code: not 3400 < code < 3600),
        st.sampled_from(["JAVA", "GO", "OTHER"]),
        st.integers(0, 0x7FFF),
        INT32,
        INT32,
        st.none() | FULL_TEXT,
        st.none() | st.dictionaries(FULL_TEXT, FULL_TEXT, min_size=1, max_size=4),
    )
)
def test_round_trip(fields: BinaryHeader) -> None:
    assert decode(encode(fields)) == fields


def test_a_pop_request_gets_its_high_bits_back() -> None:
    assert encode(header(200050))[:2] == pack(">h", 3442)
    assert decode(encode(header(200050))).code == 200050


def test_a_response_code_is_not_widened() -> None:
    assert decode(encode(header(3442, flag=1))).code == 3442


def test_an_empty_value_means_not_set() -> None:
    assert decode(encode(header(ext={"a": "", "b": "x"}))).ext == {"b": "x"}
    assert decode(encode(header(ext={"a": ""}))).ext == {}
    assert decode(encode(header(ext={}))).ext is None


def test_unknown_languages_are_other() -> None:
    assert decode(encode(header(language="KLINGON"))).language == "OTHER"
    assert decode(GOLDEN[:2] + b"\x63" + GOLDEN[3:]).language == "OTHER"


def test_ill_formed_utf8_is_replaced() -> None:
    assert decode(GOLDEN[:-2] + b"\xff1").ext == {"topic": "�1"}


def test_a_key_longer_than_its_length_field() -> None:
    with pytest.raises(UsageError, match="40000 bytes"):
        encode(header(ext={"k" * 40000: "v"}))


@pytest.mark.parametrize("size", range(len(GOLDEN)))
def test_cut_short(size: int) -> None:
    with pytest.raises(PeerError):
        decode(GOLDEN[:size])


@pytest.mark.parametrize(
    "data",
    [
        GOLDEN[:13] + pack(">i", -1) + GOLDEN[17:],
        GOLDEN[:13] + pack(">i", 1000) + GOLDEN[17:],
        GOLDEN[:17] + pack(">i", -1) + GOLDEN[21:],
        GOLDEN[:17] + pack(">i", 14) + GOLDEN[21:],
        GOLDEN[:17] + pack(">i", 12) + GOLDEN[21:],
        GOLDEN[:21] + pack(">h", -2) + GOLDEN[23:],
        GOLDEN[:28] + pack(">i", -1) + GOLDEN[32:],
        GOLDEN[:28] + pack(">i", 2**31 - 1) + GOLDEN[32:],
    ],
)
def test_lengths_that_do_not_fit(data: bytes) -> None:
    with pytest.raises(PeerError):
        decode(data)


@given(st.binary(max_size=80), st.integers(0, len(GOLDEN)))
def test_garbage_gives_a_header_or_peer_error(garbage: bytes, at: int) -> None:
    for data in (garbage, GOLDEN[:at] + garbage, GOLDEN[:at] + garbage + GOLDEN[at:]):
        try:
            assert isinstance(decode(data), BinaryHeader)
        except PeerError:
            pass
