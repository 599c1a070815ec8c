"""Sinks and raw clients for the tests of server and connections."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from epochmq.runtime.bounds import Bounds
from epochmq.runtime.server import RemotingServer
from epochmq.wire.command import Command, encode_frame
from epochmq.wire.frame import RawFrame
from epochmq.wire.session import Session


def frame(opaque: int = 1, body: bytes = b"", code: int = 105) -> bytes:
    return encode_frame(Command(code, opaque=opaque, body=body))


class EchoSink:
    """Answers each frame with its own bytes at the end of the turn; remembers what it was told."""

    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.lost: list[Session] = []
        self.reads: list[int] = []
        self.turns = 0
        self.staged: list[tuple[Session, bytes]] = []
        self.on_frame: Callable[[Session, bytes], None] = lambda session, body: None
        self.changed = asyncio.Event()

    def opened(self, session: Session) -> None:
        self.sessions.append(session)
        self.changed.set()

    def closed(self, session: Session) -> None:
        self.lost.append(session)
        self.changed.set()

    def receive(self, session: Session, frames: Sequence[RawFrame], now: int) -> None:
        self.reads.append(len(frames))
        for raw in frames:
            body = bytes(raw.body)
            self.on_frame(session, body)
            self.staged.append((session, body))
        self.changed.set()

    def end_of_turn(self, now: int) -> None:
        self.turns += 1
        staged, self.staged = self.staged, []
        for session, body in staged:
            session.send(body)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds; it is looked at after every event of the sink."""
        async with asyncio.timeout(30):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def serving(
    sink: EchoSink, bounds: Bounds | None = None
) -> AsyncIterator[tuple[RemotingServer, int]]:
    server = RemotingServer(bounds)
    port = await server.start("127.0.0.1", 0, sink)
    try:
        yield server, port
    finally:
        await server.stop(grace_ms=200)


@asynccontextmanager
async def connected(
    port: int,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        try:
            await writer.wait_closed()
        except OSError:
            pass


async def ended(reader: asyncio.StreamReader) -> bool:
    """Whether the other side closes the connection within the time limit of the test."""
    async with asyncio.timeout(30):
        try:
            while await reader.read(65536):
                pass
        except ConnectionError:
            pass
    return True


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until `condition` holds, for what no event tells of."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)
