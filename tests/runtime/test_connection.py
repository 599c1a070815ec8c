import asyncio
import gc
from itertools import pairwise
from random import randbytes

import pytest
from tests.runtime.sinks import EchoSink, connected, ended, frame, serving, until

from epochmq.base import limits
from epochmq.runtime.connection import (
    ALONE_BYTES,
    PIECE_BYTES,
    RAW_MISSES,
    Connection,
    _address,
    _pieces,
)
from epochmq.wire.command import (
    FLAG_ONEWAY,
    Command,
    _binary_header,
    _json_header,
    decode,
    encode_frame,
)
from epochmq.wire.frame import PREFIX_BYTES, FrameReader, prefix


@pytest.mark.parametrize(
    ("name", "address"),
    [
        (("127.0.0.1", 80), ("127.0.0.1", 80)),
        (("::1", 80, 0, 0), ("::1", 80)),
        (("fe80::1%eth0", 80, 0, 2), ("fe80::1", 80)),
        (("::ffff:10.0.0.1", 80, 0, 0), ("10.0.0.1", 80)),
        (("::ffff:0:1", 80, 0, 0), ("::ffff:0:1", 80)),
        (None, ("0.0.0.0", 0)),
    ],
)
def test_socket_names_become_plain_addresses(name: object, address: tuple[str, int]) -> None:
    assert _address(name) == address


def test_a_large_outbox_is_joined_in_pieces_without_splitting_chunks() -> None:
    half = bytes(PIECE_BYTES // 2)
    assert list(map(len, _pieces([half, half, half]))) == [PIECE_BYTES, PIECE_BYTES // 2]
    assert list(map(len, _pieces([half + half + half, b"x"]))) == [3 * len(half), 1]
    assert _pieces([]) == []
    assert _pieces([memoryview(b"ab"), bytearray(b"c"), b"d"]) == [b"abcd"]


def test_a_long_view_of_what_nobody_writes_to_is_not_copied() -> None:
    run, changing = memoryview(bytes(ALONE_BYTES)), memoryview(bytearray(ALONE_BYTES))
    pieces = _pieces([b"head", run, b"a", b"b", run[1:], changing, run])
    assert pieces == [b"head", run, b"ab" + run[1:] + changing, run]
    assert pieces[1] is run


async def test_long_and_short_views_arrive_in_order() -> None:
    sink = EchoSink()
    async with serving(sink) as (_, port), connected(port) as (reader, _):
        await sink.until(lambda: len(sink.sessions) == 1)
        data = memoryview(bytes(range(256)) * 12_000)
        cuts = [0, 5, 100_000, 100_007, 1_500_000, 2_900_000, len(data)]
        chunks = [data[a:b] for a, b in pairwise(cuts)]
        for _ in range(3):
            sink.sessions[0].send(*chunks)
        assert await reader.readexactly(3 * len(data)) == bytes(data) * 3


async def test_large_answers_of_many_chunks_arrive_whole() -> None:
    sink = EchoSink()
    async with serving(sink) as (_, port), connected(port) as (reader, _):
        await sink.until(lambda: len(sink.sessions) == 1)
        data = bytes(range(256)) * 4096
        sink.sessions[0].send(*[memoryview(data)[n::5][::1].tobytes() for n in range(5)] * 4)
        wanted = b"".join(data[n::5] for n in range(5)) * 4
        assert await reader.readexactly(len(wanted)) == wanted


async def test_a_delayed_call_can_be_cancelled() -> None:
    sink = EchoSink()
    async with serving(sink) as (_, port), connected(port):
        await sink.until(lambda: len(sink.sessions) == 1)
        connection = sink.sessions[0]._transport
        fired: list[str] = []
        done = asyncio.Event()
        connection.after(1, lambda: fired.append("no"))()
        connection.after(2, lambda: (fired.append("yes"), done.set())[0])
        await asyncio.wait_for(done.wait(), 30)
        assert fired == ["yes"]


async def test_an_error_when_a_session_opens_or_closes_is_contained(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Bad(EchoSink):
        def opened(self, session: object) -> None:
            raise ValueError("not today")

        def closed(self, session: object) -> None:
            raise ValueError("nor now")

    async with serving(Bad()) as (server, port), connected(port) as (reader, _):
        assert await ended(reader)
        await until(lambda: not server.connection_count)
    assert "not today" in caplog.text
    assert "nor now" in caplog.text


async def test_a_closed_connection_frees_its_memory_at_once() -> None:
    """Half a frame may have 16 MiB, and the cycle collector may take its time."""
    sink = EchoSink()
    gc.collect()
    gc.disable()
    before = connections()
    try:
        async with serving(sink) as (server, port):
            async with connected(port) as (_, writer):
                writer.write(frame(1, bytes(100_000))[:-1])
                await sink.until(lambda: len(sink.sessions) == 1)
                reader = sink.sessions[0]._transport._reader
                await until(lambda: reader.pending_bytes > 90_000)
                assert connections() == before + 1
            await until(lambda: not server.connection_count)
            assert reader.pending_bytes == 0
            await until(lambda: connections() == before)
    finally:
        gc.enable()


def connections() -> int:
    """How many there are, closed ones included that nothing has freed yet."""
    return sum(type(each) is Connection for each in gc.get_objects())


async def test_nothing_is_written_after_the_end() -> None:
    sink = EchoSink()
    sink.on_frame = lambda session, body: session.close("over")
    async with serving(sink) as (_, port), connected(port) as (reader, writer):
        writer.write(frame(1, b"too late"))
        assert await reader.read() == b""


async def test_a_sink_that_takes_frames_from_the_buffer_gets_them_first() -> None:
    """What it leaves, and the frame that came in pieces, goes the usual way, in order."""

    class Raw(EchoSink):
        def receive_raw(self, session: object, data: memoryview, start: int, size: int) -> int:
            taken = 0
            while bytes(data[start + taken : size]).startswith(HOT):
                taken += len(HOT)
                seen.append("raw")
            return taken

        def receive(self, session: object, frames: object, now: int) -> None:
            super().receive(session, frames, now)  # type: ignore[arg-type]
            seen.append("frame")

    seen: list[str] = []
    cold = frame(2, b"cold")
    sink = Raw()
    async with serving(sink) as (_, port), connected(port) as (_, writer):
        for data, expected in (
            (HOT * 3, ["raw"] * 3),
            (HOT + cold, ["raw", "frame"]),
            (HOT + cold[:9], ["raw"]),
            (cold[9:] + HOT, ["frame", "raw"]),
            (HOT[:3], []),
            (HOT[3:] + HOT + cold, ["raw", "raw", "frame"]),
            (cold, ["frame"]),
            *[(HOT, ["frame"])] * RAW_MISSES,
            (HOT, ["raw"]),
        ):
            seen.clear()
            writer.write(data)
            await until(lambda expected=expected: len(seen) >= len(expected))  # type: ignore[misc]
            await asyncio.sleep(0)
            assert seen == expected
            if not expected:
                await until(lambda: any(map(_has_part, sink.sessions)))


def _has_part(session: object) -> bool:
    return bool(session._transport.half_frame)  # type: ignore[attr-defined]


HOT = frame(1, b"hot")


async def test_large_frames_arrive_whole_among_small_ones() -> None:
    """Most of them is read to where it belongs; what follows is read as ever."""
    bodies = [randbytes(size) for size in (3 << 20, 20, 1 << 20, 700_000, 0, 5 << 20)]
    sink = EchoSink()
    got: list[bytes] = []
    sink.on_frame = lambda session, body: got.append(body)
    async with serving(sink) as (_, port), connected(port) as (reader, writer):
        for body in bodies:
            whole = frame(1, body)
            for start in range(0, len(whole), 300_000):
                writer.write(whole[start : start + 300_000])
                await writer.drain()
                if len(body) > 1 << 20 and start == 600_000:
                    await until(lambda: sink.sessions[0]._transport._reader.room is not None)
        await sink.until(lambda: len(got) == len(bodies))
        assert got == bodies
        echoed = await reader.readexactly(sum(map(len, bodies)))
        assert echoed == b"".join(bodies)


def request_of(size: int, *, flag: int = 0, binary: bool = False, code: int = 310) -> bytes:
    """A frame whose header has `size` bytes, and opaque 7."""
    command = Command(code, opaque=7, flag=flag, ext={"i": "x"}, binary=binary)
    whole = encode_frame(command)
    command.ext = {"i": "x" * (size - (len(whole) - PREFIX_BYTES) + 1)}
    head = _binary_header(command) if binary else _json_header(command)
    assert len(head) == size
    return prefix(size, 4, binary) + head + b"body"


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(
    ("size", "served"),
    [
        (limits.HEADER_BYTES_MAX - 1, True),
        (limits.HEADER_BYTES_MAX, True),
        (limits.HEADER_BYTES_MAX + 1, False),
        (limits.HEADER_BYTES_MAX + 2, False),
        (1024 * 1024, False),
        (limits.ANSWER_HEADER_BYTES_MAX + 1, False),
        (limits.FRAME_BYTES_MAX - PREFIX_BYTES - 4, False),
    ],
)
async def test_a_request_with_too_long_a_header_is_answered(
    size: int, served: bool, binary: bool
) -> None:
    """And the connection goes on: others' requests are under way on it."""
    sink = EchoSink()
    async with serving(sink) as (_, port), connected(port) as (reader, writer):
        writer.write(request_of(size, binary=binary) + frame(8, b"next"))
        if served:
            assert await reader.readexactly(8) == b"bodynext"
            return
        data = await reader.readexactly(4)
        data += await reader.readexactly(int.from_bytes(data, "big"))
        assert await reader.readexactly(4) == b"next"
        (raw,) = FrameReader().feed(data)
        answer = decode(raw.header, raw.binary)
        assert (answer.code, answer.opaque, answer.is_response) == (13, 7, True)
        assert raw.binary is binary
        assert f"a header of {size} bytes" in (answer.remark or "")
        assert sink.reads == [1], "the sink hears nothing of it"


async def test_a_one_way_request_with_too_long_a_header_has_no_answer() -> None:
    async with serving(EchoSink()) as (_, port), connected(port) as (reader, writer):
        writer.write(request_of(limits.HEADER_BYTES_MAX + 1, flag=FLAG_ONEWAY) + frame(8, b"next"))
        assert await reader.readexactly(4) == b"next"


@pytest.mark.parametrize(
    "data",
    [
        request_of(limits.HEADER_BYTES_MAX + 1, flag=1),
        prefix(limits.HEADER_BYTES_MAX + 1, 0) + bytes(limits.HEADER_BYTES_MAX + 1),
    ],
    ids=["response", "garbage"],
)
async def test_what_cannot_be_answered_ends_the_connection(data: bytes) -> None:
    async with serving(EchoSink()) as (_, port), connected(port) as (reader, writer):
        writer.write(data)
        assert await reader.read() == b""
