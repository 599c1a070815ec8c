"""Connections to the other controllers, and the connection attempt of the liveness probe."""

import asyncio
import logging
import ssl
from collections import deque

from epochmq.base.errors import NotReachable
from epochmq.model.host import BadAddress, parse_addr
from epochmq.runtime.peers import Peer
from epochmq.runtime.rng import random_name
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, request
from epochmq.wire.session import Signer

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_MS = 1_000
PAUSE_MS = 200
"""Pause between attempts to connect."""
WAITING_MAX = 256
"""Messages that wait for a connection; Raft repeats lost messages."""
KNOCK_TIMEOUT_MS = 500
LINK = "link"
"""Header field of a Raft message: the random name of its connection."""


class RaftLink:
    """Sends one-way messages to one controller in order; they are lost without a connection.

    Each connection has a random name, which is sent with every message. With it the other
    controller can ask whether the connection belongs to this controller; see `raft_sessions.py`.
    """

    def __init__(
        self, address: str, tls: ssl.SSLContext | None = None, signer: Signer | None = None
    ) -> None:
        self._address = address
        self._signer = signer
        self._tls = tls
        self._word = random_name()
        self._peer: Peer | None = None
        self._waiting: deque[bytes] = deque(maxlen=WAITING_MAX)
        self._connecting: asyncio.Task[None] | None = None

    def is_own(self, word: str) -> bool:
        """Whether the present connection has this name."""
        return word == self._word

    def send(self, data: bytes) -> None:
        """Send a message, or keep it until there is a connection."""
        if self._peer is not None and not self._peer.session.closed:
            self._write(self._peer, data)
            return
        self._waiting.append(data)
        self._begin_to_connect()

    async def ask(self, question: Command, timeout_ms: int) -> Command:
        """Send a request to the configured address. Raises `NotReachable` if there is no answer."""
        if self._peer is None or self._peer.session.closed:
            await asyncio.wait([self._begin_to_connect()], timeout=timeout_ms / 1000)
        if self._peer is None or self._peer.session.closed:
            raise NotReachable(f"controller {self._address} cannot be reached")
        return await self._peer.invoke(question, timeout_ms)

    def _begin_to_connect(self) -> "asyncio.Task[None]":
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
        return self._connecting

    def _write(self, peer: Peer, data: bytes) -> None:
        peer.session.oneway(request(RequestCode.RAFT_MESSAGE, {LINK: self._word}, data))

    async def _connect(self) -> None:
        self._word = random_name()
        try:
            peer = self._peer = await Peer.connect(
                self._address, CONNECT_TIMEOUT_MS, tls=self._tls, signer=self._signer
            )
            while self._waiting:
                self._write(peer, self._waiting.popleft())
        except NotReachable as error:
            log.debug(
                "controller %(address)s: %(error)s", {"address": self._address, "error": error}
            )
            self._waiting.clear()
            await asyncio.sleep(PAUSE_MS / 1000)
        finally:
            self._connecting = None

    async def close(self) -> None:
        """Close the connection."""
        task, self._connecting = self._connecting, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if self._peer is not None:
            self._peer.close("the controller stops")


async def is_refused(address: str) -> bool:
    """Whether `address` refuses connections; False for any other result."""
    try:
        host, port = parse_addr(address)
        async with asyncio.timeout(KNOCK_TIMEOUT_MS / 1000):
            _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return True
    except (OSError, UnicodeError, BadAddress, TimeoutError):
        return False
    writer.close()
    return False
