"""Frames: whole, in pieces at any byte, and impossible ones."""

import re
import struct
from random import randbytes

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from epochmq.base.errors import PeerError
from epochmq.base.limits import ANSWER_HEADER_BYTES_MAX, FRAME_BYTES_MAX, HEADER_BYTES_MAX
from epochmq.wire.frame import (
    END_BYTES,
    PREFIX,
    ROOM_BYTES,
    ROOM_GROWTH,
    FrameReader,
    RawFrame,
    check_prefix,
    prefix,
)

PART = st.tuples(st.binary(max_size=40), st.booleans(), st.binary(max_size=60))


def pack(header: bytes, binary: bool, body: bytes) -> bytes:
    return prefix(len(header), len(body), binary) + header + body


def plain(frames: list[RawFrame]) -> list[tuple[bytes, bool, bytes]]:
    return [(frame.header, frame.binary, bytes(frame.body)) for frame in frames]


def test_prefix_of_the_golden_vector() -> None:
    assert prefix(0x7C, 0).hex() == "000000800000007c"
    assert prefix(0x22, 0, binary=True).hex() == "0000002601000022"


def test_whole_frames_are_views_of_what_was_fed() -> None:
    data = bytearray(pack(b"h", False, b"body") * 3)
    reader = FrameReader()
    frames = reader.feed(memoryview(data))
    assert plain(frames) == [(b"h", False, b"body")] * 3
    assert all(frame.body.obj is data for frame in frames)
    assert reader.pending_bytes == 0
    assert reader.partial_since is None


@given(st.lists(PART, max_size=6), st.data())
def test_split_at_any_bytes(parts: list[tuple[bytes, bool, bytes]], data: st.DataObject) -> None:
    stream = b"".join(pack(*part) for part in parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    reader = FrameReader()
    got: list[tuple[bytes, bool, bytes]] = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += plain(reader.feed(memoryview(stream)[start:stop]))
    assert got == parts
    assert reader.pending_bytes == 0


def test_byte_by_byte() -> None:
    reader = FrameReader()
    stream = pack(b"head", True, b"body") + pack(b"", False, b"")
    got = [frame for byte in stream for frame in plain(reader.feed(bytes([byte])))]
    assert got == [(b"head", True, b"body"), (b"", False, b"")]


def test_partial_since_is_when_the_unfinished_frame_began() -> None:
    reader = FrameReader()
    frame = pack(b"head", False, b"body")
    assert reader.feed(frame[:9], now=5) == []
    assert reader.feed(frame[9:11], now=7) == []
    assert (reader.partial_since, reader.pending_bytes) == (5, 11)
    assert len(reader.feed(frame[11:] + frame[:3], now=9)) == 1
    assert (reader.partial_since, reader.pending_bytes) == (9, 3)
    assert len(reader.feed(frame[3:], now=11)) == 1
    assert (reader.partial_since, reader.pending_bytes) == (None, 0)


def test_a_joined_frame_outlives_the_next_feed() -> None:
    reader = FrameReader()
    frame = pack(b"h", False, b"body")
    reader.feed(frame[:5])
    (whole,) = reader.feed(frame[5:])
    reader.feed(b"\x00\x00")
    assert bytes(whole.body) == b"body"


def test_nothing_fed_nothing_kept() -> None:
    reader = FrameReader()
    assert reader.feed(b"") == []
    assert reader.partial_since is None


def test_memory_follows_what_came_not_what_was_announced() -> None:
    reader = FrameReader()
    reader.feed(PREFIX.pack(FRAME_BYTES_MAX - 4, 0) + b"x")
    assert reader.pending_bytes == 9


@pytest.mark.parametrize(
    ("length", "word"),
    [
        (3, 0),
        (-1, 0),
        (-(2**31), 0),
        (FRAME_BYTES_MAX - 3, 0),
        (2**31 - 1, 0),
        (100, 97),
        (HEADER_BYTES_MAX, HEADER_BYTES_MAX + 1),
        (100, 2 << 24),
        (100, -1),
    ],
)
@pytest.mark.parametrize("split", [0, 3, 7, 8])
def test_impossible_prefixes(length: int, word: int, split: int) -> None:
    data = PREFIX.pack(length, word) + bytes(16)
    reader = FrameReader()
    with pytest.raises(PeerError):
        assert reader.feed(data[:split]) + reader.feed(data[split:]) == []


@pytest.mark.parametrize(
    ("begin", "name"),
    [
        (b"PRI * HTTP/2.0\r\n", "HTTP/2 (gRPC)"),
        (b"GET / HTTP/1.1\r\n", "HTTP/1"),
        (b"OPTIONS * HTTP/1.1", "HTTP/1"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "TLS"),
    ],
)
@pytest.mark.parametrize("split", [0, 2, 8])
def test_another_protocol_is_named(begin: bytes, name: str, split: int) -> None:
    reader = FrameReader()
    with pytest.raises(PeerError, match=f"speaks {re.escape(name)} here"):
        assert reader.feed(begin[:split]) + reader.feed(begin[split:]) == []


def test_the_largest_allowed() -> None:
    assert check_prefix(FRAME_BYTES_MAX - 4, HEADER_BYTES_MAX) == HEADER_BYTES_MAX
    assert check_prefix(4, 1 << 24) == 0


@pytest.mark.parametrize("split", [0, 7, 9, 100_000])
def test_answers_may_have_long_headers(split: int) -> None:
    """The answer to a batch of thousands names the id of each of its messages."""
    data = PREFIX.pack(200_004, 200_000) + bytes(200_000)
    reader = FrameReader(ANSWER_HEADER_BYTES_MAX)
    frames = reader.feed(data[:split]) + reader.feed(data[split:])
    assert [len(frame.header) for frame in frames] == [200_000]


@pytest.mark.parametrize("over", [-1, 0, 1, 2, HEADER_BYTES_MAX, FRAME_BYTES_MAX // 2])
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("split", [0, 7, 9, 100_000])
def test_the_ends_of_too_long_a_header_are_kept(over: int, binary: bool, split: int) -> None:
    header = b"begin" + bytes(HEADER_BYTES_MAX + over - 8) + b"end"
    data = pack(header, binary, b"body") + pack(b"next", False, b"")
    reader = FrameReader()
    frames = reader.feed(data[:split]) + reader.feed(data[split:])
    if over > 0:
        (kept,) = reader.long_headers
        assert (kept.size, kept.binary) == (len(header), binary)
        assert (kept.head, kept.tail) == (header[:END_BYTES], header[-END_BYTES:])
    else:
        assert reader.long_headers == []
        assert frames.pop(0).header == header
    assert [frame.header for frame in frames] == [b"next"]
    assert reader.pending_bytes == 0


@given(st.lists(st.binary(max_size=64), max_size=8))
def test_garbage_gives_frames_or_peer_error(pieces: list[bytes]) -> None:
    reader = FrameReader()
    try:
        for piece in pieces:
            assert isinstance(reader.feed(piece), list)
    except PeerError:
        pass


def test_half_a_frame_can_be_dropped() -> None:
    reader = FrameReader()
    reader.feed(PREFIX.pack(1_000_000, 0) + bytes(100), now=5)
    assert (reader.pending_bytes, reader.partial_since) == (108, 5)
    reader.drop()
    assert (reader.pending_bytes, reader.partial_since) == (0, None)


@given(st.integers(1, 40))
def test_only_the_unfinished_frame_is_completed(cut: int) -> None:
    reader = FrameReader()
    first, second = pack(b"head", False, b"x" * 40), pack(b"next", True, b"")
    assert reader.feed(first[:cut], now=3) == []
    assert reader.feed_rest(first[cut : cut + 5]) == (5, None)
    assert reader.partial_since == 3
    assert reader.feed_rest(first[cut + 5 :] + second) == (len(first) - cut - 5, first)
    assert (reader.partial_since, reader.pending_bytes) == (None, 0)
    assert plain(reader.feed(second)) == [(b"next", True, b"")]


def read_on(reader: FrameReader, piece: bytes) -> tuple[bytearray | None, bytes]:
    """Write what fits of a piece to the reader's room: the frame once it is whole, and the rest."""
    assert reader.room is not None
    count = min(len(piece), len(reader.room))
    reader.room[:count] = piece[:count]
    whole = reader.filled(count)
    if whole is None and count < len(piece):
        return read_on(reader, piece[count:])
    return whole, piece[count:]


@given(st.integers(2 * ROOM_BYTES, 5 * ROOM_GROWTH * ROOM_BYTES), st.data())
def test_the_rest_of_a_large_frame_is_read_to_its_place(size: int, data: st.DataObject) -> None:
    frame, behind = pack(b"head", False, randbytes(size)), pack(b"next", False, b"body")
    stream = frame + behind
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    reader = FrameReader()
    got: list[tuple[bytes, bool, bytes]] = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        piece = stream[start:stop]
        if reader.room is not None:
            whole, piece = read_on(reader, piece)
            if whole is not None:
                assert (reader.room, reader.pending_bytes, reader.partial_since) == (None, 0, None)
                got += plain(reader.feed(whole))
        if reader.room is None:
            got += plain(reader.feed(piece, 7))
            have = reader.pending_bytes
            large = have >= ROOM_BYTES and len(frame) - have >= ROOM_BYTES
            assert reader.make_room() == large
            if large:
                assert reader.partial_since == 7
                assert reader.pending_bytes <= len(frame)
    assert got == [(b"head", False, frame[12:]), (b"next", False, b"body")]


def test_room_is_in_proportion_to_what_came() -> None:
    reader = FrameReader()
    reader.feed(PREFIX.pack(FRAME_BYTES_MAX - 4, 0) + bytes(ROOM_BYTES))
    came = reader.pending_bytes
    assert reader.make_room()
    while reader.room is not None:
        assert reader.pending_bytes <= ROOM_GROWTH * came
        came += len(reader.room)
        whole = reader.filled(len(reader.room))
    assert whole is not None
    assert len(whole) == came == FRAME_BYTES_MAX


def test_room_is_let_go() -> None:
    reader = FrameReader()
    reader.feed(PREFIX.pack(1_000_000, 0) + bytes(ROOM_BYTES), now=5)
    assert reader.make_room()
    reader.drop()
    assert (reader.room, reader.pending_bytes) == (None, 0)
    assert not reader.make_room()


@given(
    over=st.integers(-3, 3),
    header_max=st.integers(0, 40),
    header_size=st.integers(0, 50),
    body_size=st.integers(0, 30),
    encoding=st.sampled_from([0, 0, 0, 1, 2, 0x80, 0xFF]),
    split=st.integers(1, 7),
)
@example(over=1, header_max=40, header_size=10, body_size=0, encoding=0, split=5)
@example(over=0, header_max=9, header_size=10, body_size=3, encoding=0, split=5)
@example(over=0, header_max=40, header_size=10, body_size=3, encoding=0xFF, split=5)
def test_a_read_of_one_whole_frame_is_like_the_same_in_two_reads(
    over: int, header_max: int, header_size: int, body_size: int, encoding: int, split: int
) -> None:
    """It has a shorter way through the code; whatever its prefix says, the result is the same."""
    size = header_size + body_size
    word = encoding << 24 | max(header_size + over, 0)
    frame = struct.pack(">II", 4 + size, word) + bytes(size)

    def outcome(*reads: bytes) -> object:
        reader = FrameReader(header_max)
        try:
            frames = [each for read in reads for each in plain(reader.feed(read))]
        except PeerError as error:
            return str(error)
        return frames, reader.long_headers, reader.pending_bytes, reader.partial_since

    assert outcome(frame) == outcome(frame[:split], frame[split:])
