"""Bodies squeezed and unsqueezed, within limits."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.deflating import deflate

from epochmq.base.errors import EpochError, UsageError
from epochmq.model import compression
from epochmq.model.compression import BadBody, CodecMissing
from epochmq.model.sys_flag import (
    COMPRESSED,
    COMPRESSION_LEGACY,
    COMPRESSION_LZ4,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
)

_LIBRARY = {COMPRESSION_LZ4: "lz4.frame", COMPRESSION_ZSTD: "zstandard"}
_KINDS = [COMPRESSION_LEGACY, COMPRESSION_ZLIB, COMPRESSION_LZ4, COMPRESSION_ZSTD]


@pytest.fixture(params=_KINDS, ids=["legacy", "zlib", "lz4", "zstd"])
def kind(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    if number in _LIBRARY:
        pytest.importorskip(_LIBRARY[number])
    return number


def test_a_plain_body_stays() -> None:
    assert compression.inflate(memoryview(b"plain"), COMPRESSION_LZ4) == b"plain"


@pytest.mark.parametrize("body", [b"", b"x", b"abc" * 5000])
def test_what_is_squeezed_comes_back(kind: int, body: bytes) -> None:
    squeezed = deflate(body, kind)
    assert compression.inflate(squeezed, COMPRESSED | kind) == body
    assert compression.inflate(memoryview(squeezed), COMPRESSED | kind, len(body)) == body


def test_a_bomb_stops_at_the_limit(kind: int) -> None:
    bomb = deflate(bytes(2_000_000), kind)
    with pytest.raises(BadBody, match="1000"):
        compression.inflate(bomb, COMPRESSED | kind, 1_000)


def test_a_zstd_bomb_that_does_not_announce_its_size_stops_too() -> None:
    zstandard = pytest.importorskip("zstandard")
    squeezer = zstandard.ZstdCompressor(write_content_size=False)
    bomb = squeezer.compress(bytes(2_000_000))
    flag = COMPRESSED | COMPRESSION_ZSTD
    assert compression.inflate(bomb, flag, 2_000_000) == bytes(2_000_000)
    with pytest.raises(BadBody, match="1000"):
        compression.inflate(bomb, flag, 1_000)


def test_half_a_body_and_garbage_are_bad(kind: int) -> None:
    squeezed = deflate(bytes(range(256)) * 20, kind)
    for damaged in (squeezed[:-5], squeezed[: len(squeezed) // 2], b"", b"garbage" * 9):
        with pytest.raises(BadBody):
            compression.inflate(damaged, COMPRESSED | kind)


@given(st.binary(max_size=200), st.integers(0, 7))
def test_any_bytes_inflate_or_fail_cleanly(data: bytes, number: int) -> None:
    try:
        assert len(compression.inflate(data, COMPRESSED | number << 8, 10_000)) <= 10_000
    except EpochError:
        return


def test_an_unknown_codec_is_named() -> None:
    with pytest.raises(BadBody, match="number 5"):
        compression.inflate(b"x", COMPRESSED | 0x500)


@pytest.mark.parametrize(("number", "library"), _LIBRARY.items())
def test_a_missing_library_names_the_extra(
    number: int, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(CodecMissing, match=r"epochmq\[compression\]"):
        compression.inflate(b"x", COMPRESSED | number)


@pytest.mark.parametrize(("codec", "library"), [("lz4", "lz4.frame"), ("zstd", "zstandard")])
def test_a_compressor_without_its_library_names_the_extra(
    codec: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(CodecMissing, match=r"epochmq\[compression\]"):
        compression.compressor(codec)


def test_an_unknown_compressor_names_the_others() -> None:
    with pytest.raises(UsageError, match="zlib, lz4 or zstd"):
        compression.compressor("gzip")


def test_lz4_blocks_do_not_depend_on_each_other() -> None:
    """The Java library refuses frames with dependent blocks, whatever their number."""
    frame = compression.compressor("lz4").compress(bytes(200_000))
    assert frame[4] & 0x20
