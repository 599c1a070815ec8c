"""A TCP proxy between a client and a server of any cluster, which delays, stalls and cuts."""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

from epochmq.base.task_set import TaskSet
from epochmq.model.host import parse_addr
from epochmq.testing.server_thread import ServerThread

HOST = "127.0.0.1"
CHUNK_BYTES = 65_536


class FaultProxy:
    """Forwards connections to a server, in a thread of its own, and disturbs them on demand.

    Use it as `with FaultProxy("10.0.0.1:10911") as proxy:`, and let the client connect to
    `proxy.address`. A client that gets broker addresses from name servers needs to be led to the
    proxy: EpochMQ's by an address map (`EPOCHMQ_ADDRESS_MAP`), RocketMQ's by the broker's options
    `brokerIP1` and `listenPort`.

    Args:
        target: the address of the server, as "host:port".
        port: the port to listen on, on loopback; 0 means any free port.

    Raises:
        BadAddress: `target` cannot be read.
    """

    def __init__(self, target: str, *, port: int = 0) -> None:
        self._forwarder = _Forwarder(*parse_addr(target), port)
        self._thread = ServerThread(f"proxy of {target}", lambda: self._forwarder)

    @property
    def address(self) -> str:
        """The address of the proxy, as "host:port"."""
        return f"{HOST}:{self._forwarder.port}"

    @property
    def connections(self) -> int:
        """The number of connections that are open now."""
        return len(self._forwarder.links)

    def start(self) -> None:
        """Listen. Raises `OSError` if the port is taken."""
        self._thread.start()

    def stop(self) -> None:
        """End all connections, and stop listening."""
        self._thread.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def delay(self, seconds: float) -> None:
        """Hold each piece of data back for `seconds`, in both directions; 0 ends that."""
        self._thread.call(lambda: self._forwarder.delay_by(seconds))

    def stall(self) -> None:
        """Pass nothing on until `mend`, and keep the connections open: a network that loses all."""
        self._thread.call(self._forwarder.stall)

    def cut(self) -> None:
        """End all connections, and refuse new ones until `mend`."""
        self._thread.call(self._forwarder.cut)

    def reset(self) -> None:
        """End all connections; new ones are served."""
        self._thread.call(self._forwarder.reset)

    def mend(self) -> None:
        """Pass on again what was stalled, serve new connections, and delay nothing."""
        self._thread.call(self._forwarder.mend)


class _Forwarder:
    """The server side of a proxy; all methods run on its event loop."""

    def __init__(self, host: str, target_port: int, port: int) -> None:
        self._host = host
        self._target_port = target_port
        self.port = port
        self.links: set[asyncio.StreamWriter] = set()
        """The client sides of the open connections."""
        self._delay_s = 0.0
        self._is_cut = False
        self._flows: asyncio.Event
        self._server: asyncio.Server
        self._tasks = TaskSet()

    async def start(self) -> None:
        self._flows = asyncio.Event()
        self._flows.set()
        self._server = await asyncio.start_server(self._serve, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        self.reset()
        await self._tasks.close()

    def delay_by(self, seconds: float) -> None:
        self._delay_s = seconds

    def stall(self) -> None:
        self._flows.clear()

    def cut(self) -> None:
        self._is_cut = True
        self.reset()

    def reset(self) -> None:
        for writer in list(self.links):
            writer.transport.abort()

    def mend(self) -> None:
        self._is_cut = False
        self._delay_s = 0.0
        self._flows.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(self._host, self._target_port)
        except OSError:
            writer.transport.abort()
            return
        self.links.add(writer)
        there = self._tasks.spawn(self._pass_on(reader, far_writer))
        back = self._tasks.spawn(self._pass_on(far_reader, writer))
        try:
            await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
        finally:
            there.cancel()
            back.cancel()
            self.links.discard(writer)
            for end in (writer, far_writer):
                end.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
