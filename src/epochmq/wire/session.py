"""One connection as handlers see it; no socket in here.

Runtime gives a `Transport` and reports the end with `lost`. Directions are told apart by the
response flag only: what we ask the peer has its own table of opaques.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from epochmq.base.errors import UsageError
from epochmq.base.ports import Buffer
from epochmq.wire.codes import OUR_VERSION, UNKNOWN_LANGUAGE, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply, encode_frame, encode_reply
from epochmq.wire.frame import RawFrame

__all__ = ["HELD", "FrameSink", "Held", "OnAnswer", "Reply", "Session", "Transport"]

OnAnswer = Callable[[Command | None], None]

log = logging.getLogger(__name__)

_OPAQUE_MASK = 0x7FFFFFFF


class Transport(Protocol):
    """What a session needs of the runtime."""

    def wake(self) -> None:
        """Called when `Session.outbox` stops being empty: write all of it at the end of the turn.

        The writer takes it with `Session.pop_outbox`.
        """
        ...

    def cut(self, reason: str) -> None:
        """Close the connection; `Session.lost` is called when it is closed."""
        ...

    def after(self, delay_ms: int, call: Callable[[], None]) -> Callable[[], None]:
        """Run `call` once, later, on the loop; return what cancels it."""
        ...


class _Gone:
    """The transport of a session whose connection is closed."""

    def wake(self) -> None:
        """Nothing is written any more."""

    def cut(self, reason: str) -> None:
        """It is cut."""

    def after(self, delay_ms: int, call: Callable[[], None]) -> Callable[[], None]:
        """It never comes to that."""
        return self.wake


_GONE = _Gone()


class Session:
    """State of one connection. `peer` is "ip:port", `peer_packed` the host as records store it."""

    __slots__ = (
        "_holds",
        "_next_opaque",
        "_pending",
        "_transport",
        "attributes",
        "client_id",
        "closed",
        "fast_port",
        "id",
        "language",
        "local",
        "on_close",
        "outbox",
        "outbox_bytes",
        "peer",
        "peer_packed",
        "version",
    )

    def __init__(
        self,
        id: int,
        transport: Transport,
        *,
        peer: str,
        peer_packed: bytes = b"",
        local: str = "",
        fast_port: bool = False,
    ) -> None:
        self.id = id
        self.peer = peer
        self.peer_packed = peer_packed
        self.local = local
        self.fast_port = fast_port
        self.closed = False
        self.attributes: dict[str, object] = {}
        self.client_id: str | None = None
        self.language = UNKNOWN_LANGUAGE
        self.version = OUR_VERSION
        self.outbox: list[Buffer] = []
        self.outbox_bytes = 0
        self.on_close: list[Callable[[Session], None]] = []
        self._transport = transport
        self._holds = 0
        self._next_opaque = 0
        self._pending: dict[int, tuple[OnAnswer, Callable[[], None]]] = {}

    def send(self, *chunks: Buffer) -> None:
        """Queue bytes for the peer; all chunks of a turn leave in one write. Nothing when closed.

        A chunk must stay unchanged until it is taken.
        """
        if self.closed:
            return
        if not self.outbox:
            self._transport.wake()
        self.outbox += chunks
        for chunk in chunks:
            self.outbox_bytes += len(chunk)

    def pop_outbox(self) -> list[Buffer]:
        """Hand the queued chunks to the writer and start a new queue; none while they are held."""
        if self._holds and not self.closed:
            return []
        chunks, self.outbox = self.outbox, []
        self.outbox_bytes = 0
        return chunks

    def hold(self) -> None:
        """Keep what is queued until `release` was called as often."""
        self._holds += 1

    def release(self) -> None:
        """Let go what a `hold` kept."""
        self._holds -= 1
        if not self._holds and self.outbox:
            self._transport.wake()

    def answer(self, request: Command, reply: Reply) -> None:
        """Answer `request`, in its own header encoding; nothing for a one-way request.

        An answer too large to be sent becomes code 1: what a peer put into its request comes back
        in some answers, and JSON may need six bytes for one of its characters.
        """
        if request.is_oneway:
            return
        try:
            chunks = encode_reply(request, reply)
        except (UsageError, UnicodeError) as error:
            log.warning("%s: the answer to %r cannot be sent: %s", self.peer, request, error)
            refusal = Reply(ResponseCode.SYSTEM_ERROR, f"unsendable answer: {error}")
            chunks = encode_reply(request, refusal)
        self.send(*chunks)

    def request(self, command: Command, timeout_ms: int, on_answer: OnAnswer) -> None:
        """Ask the peer; `on_answer` gets its response, or None on time-out or close.

        `UsageError`, and no call of `on_answer`, for a command too large to be sent.
        """
        if self.closed:
            on_answer(None)
            return
        opaque = self._allocate_opaque()
        command.opaque = opaque
        data = encode_frame(command)
        cancel = self._transport.after(timeout_ms, lambda: self._expired(opaque))
        self._pending[opaque] = (on_answer, cancel)
        self.send(data)

    def oneway(self, command: Command) -> None:
        """Tell the peer something without wanting an answer."""
        command.opaque = self._allocate_opaque()
        command.mark_oneway()
        self.send(encode_frame(command))

    def answered(self, response: Command) -> bool:
        """Give a response to whoever asked; False when nobody waits for its opaque (any more)."""
        return self._complete(response.opaque, response)

    def close(self, reason: str) -> None:
        """Cut the connection; `reason` goes to the log."""
        if not self.closed:
            self._transport.cut(reason)

    def lost(self) -> None:
        """The connection is gone (called by runtime, once or more): fail what waits, tell all."""
        if self.closed:
            return
        self.closed = True
        # The transport holds the session: without this only the cycle collector would free both.
        self._transport = _GONE
        self.pop_outbox()
        for opaque in list(self._pending):
            self._complete(opaque, None)
        watchers, self.on_close = self.on_close, []
        for watcher in watchers:
            watcher(self)

    def _allocate_opaque(self) -> int:
        self._next_opaque = (self._next_opaque + 1) & _OPAQUE_MASK
        return self._next_opaque

    def _expired(self, opaque: int) -> None:
        self._complete(opaque, None)

    def _complete(self, opaque: int, response: Command | None) -> bool:
        waiting = self._pending.pop(opaque, None)
        if waiting is None:
            return False
        on_answer, cancel = waiting
        cancel()
        on_answer(response)
        return True


class FrameSink(Protocol):
    """What a node gives to runtime's server."""

    def opened(self, session: Session) -> None: ...

    def closed(self, session: Session) -> None:
        """After `Session.lost`."""
        ...

    def receive(self, session: Session, frames: Sequence[RawFrame], now: int) -> None:
        """All frames of one socket read; their bodies are views that die after the return."""
        ...

    def end_of_turn(self, now: int) -> None:
        """Once after all reads of a loop turn."""
        ...
