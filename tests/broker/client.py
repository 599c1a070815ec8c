"""A stranger's client: raw frames over a real socket."""

import asyncio

from epochmq.wire.command import Command, decode, encode_frame
from epochmq.wire.frame import FrameReader

TIMEOUT_S = 10


class RawClient:
    """One connection; answers by opaque."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader()
        self._opaque = 0
        self.heard: list[Command] = []

    @classmethod
    async def connect(cls, port: int) -> "RawClient":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def put(self, command: Command) -> int:
        self._opaque += 1
        command.opaque = self._opaque
        self._writer.write(encode_frame(command))
        return self._opaque

    async def next(self) -> Command:
        """The next frame the broker sends."""
        while not self.heard:
            data = await asyncio.wait_for(self._reader.read(1 << 16), TIMEOUT_S)
            if not data:
                raise ConnectionResetError("the broker closed the connection")
            for frame in self._frames.feed(data):
                self.heard.append(decode(frame.header, frame.binary, bytes(frame.body)))
        return self.heard.pop(0)

    async def ask(self, command: Command) -> Command:
        opaque = self.put(command)
        answer = await self.next()
        assert answer.opaque == opaque
        return answer

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            pass
