"""One connection, as request handlers see it, without a socket.

The runtime provides a `Transport` and reports the end of the connection with `lost`. The response
flag alone distinguishes the two directions; requests to the peer have their own opaques.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from epochmq.base.errors import UsageError
from epochmq.base.ports import Buffer
from epochmq.wire.codes import OUR_VERSION, UNKNOWN_LANGUAGE, ResponseCode
from epochmq.wire.command import (
    FLAG_ONEWAY,
    HELD,
    Command,
    Held,
    Reply,
    encode_frame,
    encode_reply,
)
from epochmq.wire.frame import RawFrame

__all__ = [
    "HELD",
    "Challenge",
    "FrameSink",
    "Held",
    "OnAnswer",
    "Reply",
    "Session",
    "Sign",
    "Signer",
    "Transport",
]

OnAnswer = Callable[[Command | None], None]
OnAnswered = Callable[[Command, int], None]
"""Gets a request and the code of its answer."""
Sign = Callable[[Command], None]
"""Adds a signature to a request, whose opaque is set."""

log = logging.getLogger(__name__)

_OPAQUE_MASK = 0x7FFFFFFF


class Signer(Protocol):
    """A user of this process, who signs requests."""

    def ask_challenge(self) -> Command:
        """Return the first request of a connection."""
        ...

    def sign_for(self, answer: Command, now_ms: Callable[[], int]) -> Sign:
        """Return what signs the other requests of the connection, after the answer to the first.

        `now_ms` returns the monotonic time.
        """
        ...


@dataclass(slots=True)
class Challenge:
    """What a server asked the client of a connection to sign with its requests."""

    nonce: bytes
    made_ms: int
    """Monotonic time."""
    last_opaque: int
    """Opaque of the last request whose signature was accepted."""


class Transport(Protocol):
    """The functions of the runtime that a session needs."""

    def wake(self) -> None:
        """Write `Session.outbox` at the end of the turn; called when the outbox stops being empty.

        The writer takes the bytes with `Session.pop_outbox`.
        """
        ...

    def cut(self, reason: str) -> None:
        """Close the connection; `Session.lost` is called after that."""
        ...

    def after(self, delay_ms: int, call: Callable[[], None]) -> Callable[[], None]:
        """Call `call` once after `delay_ms`, on the event loop. Return a function that
        cancels it.
        """
        ...


class _Gone:
    """The transport of a session whose connection is closed."""

    def wake(self) -> None:
        """Do nothing: nothing is written any more."""

    def cut(self, reason: str) -> None:
        """Do nothing: the connection is closed."""

    def after(self, delay_ms: int, call: Callable[[], None]) -> Callable[[], None]:
        """Do nothing: no timer starts."""
        return self.wake


_GONE = _Gone()


class Session:
    """The state of one connection.

    Attributes:
        id: number of the session.
        peer: address of the peer, "ip:port".
        peer_packed: address of the peer, as records store it.
        local: own address of the connection.
        closed: whether the connection is closed.
        client_id: the id of the client, once known.
        outbox: chunks of bytes that wait to be written.
        on_close: functions that are called when the connection is closed.
        encrypted: whether the connection uses TLS.
        challenge: the challenge for the client, once it asked for one.
    """

    __slots__ = (
        "_answered",
        "_holds",
        "_next_opaque",
        "_pending",
        "_sign",
        "_transport",
        "attributes",
        "challenge",
        "client_id",
        "closed",
        "encrypted",
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
        encrypted: bool = False,
    ) -> None:
        self.id: int = id
        self.peer: str = peer
        self.peer_packed: bytes = peer_packed
        self.local: str = local
        self.fast_port: bool = fast_port
        self.encrypted: bool = encrypted
        self.challenge: Challenge | None = None
        self._sign: Sign | None = None
        self._answered: OnAnswered | None = None
        self.closed: bool = False
        self.attributes: dict[str, object] = {}
        self.client_id: str | None = None
        self.language: str = UNKNOWN_LANGUAGE
        self.version: int = OUR_VERSION
        self.outbox: list[Buffer] = []
        self.outbox_bytes: int = 0
        self.on_close: list[Callable[[Session], None]] = []
        self._transport = transport
        self._holds = 0
        self._next_opaque = 0
        self._pending: dict[int, tuple[OnAnswer, Callable[[], None]]] = {}

    def sign_with(self, sign: Sign) -> None:
        """Sign all further requests to the peer."""
        self._sign = sign

    def time_answers(self, answered: OnAnswered) -> None:
        """Call `answered` for each request that `answer` answers and that has a time of arrival."""
        self._answered = answered

    def send(self, *chunks: Buffer) -> None:
        """Queue bytes for the peer. All chunks of one turn are written at once; nothing if closed.

        A chunk must not change until it is written.
        """
        if self.closed:
            return
        if not self.outbox:
            self._transport.wake()
        self.outbox += chunks
        # An answer to a pull may have dozens of chunks, all others have one or two.
        self.outbox_bytes += len(chunks[0]) if len(chunks) == 1 else sum(map(len, chunks))

    def send_one(self, chunk: bytes) -> None:
        """Queue one piece of bytes as `send` does; every answer to a send passes here."""
        if self.closed:
            return
        if not self.outbox:
            self._transport.wake()
        self.outbox.append(chunk)
        self.outbox_bytes += len(chunk)

    def pop_outbox(self) -> list[Buffer]:
        """Return the queued chunks for writing and clear the queue; empty while a
        `hold` is active.
        """
        if self._holds and not self.closed:
            return []
        chunks, self.outbox = self.outbox, []
        self.outbox_bytes = 0
        return chunks

    def hold(self) -> None:
        """Stop writing until `release` was called the same number of times."""
        self._holds += 1

    def release(self) -> None:
        """End one `hold`; after the last one, writing continues."""
        self._holds -= 1
        if not self._holds and self.outbox:
            self._transport.wake()

    def answer(self, request: Command, reply: Reply) -> None:
        """Answer `request` in its header encoding; a one-way request gets no answer.

        An answer that is too large is replaced by code 1. Some answers repeat data of the request,
        and JSON may need six bytes for one character.
        """
        if request.arrived_ms >= 0 and self._answered is not None:
            self._answered(request, reply.code)
        if request.flag & FLAG_ONEWAY:
            return
        try:
            chunks = encode_reply(request, reply)
        except (UsageError, UnicodeError) as error:
            log.warning(
                "%(peer)s: the answer to %(request)r cannot be sent: %(error)s",
                {"peer": self.peer, "request": request, "error": error},
            )
            refusal = Reply(ResponseCode.SYSTEM_ERROR, f"unsendable answer: {error}")
            chunks = encode_reply(request, refusal)
        self.send(*chunks)

    def request(self, command: Command, timeout_ms: int, on_answer: OnAnswer) -> None:
        """Send a request to the peer.

        Args:
            command: the request; its opaque is set here.
            timeout_ms: milliseconds to wait.
            on_answer: called with the response, or with None after a timeout or when the connection
                is closed.

        Raises:
            UsageError: the command is too large; `on_answer` is not called.
        """
        if self.closed:
            on_answer(None)
            return
        opaque = self._allocate_opaque()
        command.opaque = opaque
        if self._sign is not None:
            self._sign(command)
        data = encode_frame(command)
        cancel = self._transport.after(timeout_ms, lambda: self._expired(opaque))
        self._pending[opaque] = (on_answer, cancel)
        self.send(data)

    def oneway(self, command: Command) -> None:
        """Send a request to the peer without waiting for an answer."""
        command.opaque = self._allocate_opaque()
        command.mark_oneway()
        if self._sign is not None:
            self._sign(command)
        self.send(encode_frame(command))

    def answered(self, response: Command) -> bool:
        """Pass a response to its waiting caller. Return False if no caller waits for its opaque."""
        return self._complete(response.opaque, response)

    def close(self, reason: str) -> None:
        """Close the connection; `reason` is logged."""
        if not self.closed:
            self._transport.cut(reason)

    def lost(self) -> None:
        """Note that the connection is closed: fail all waiting requests and call all `on_close`
        functions.

        The runtime calls it at least once; further calls do nothing.
        """
        if self.closed:
            return
        self.closed = True
        # The transport refers to the session. Without this line only the cycle collector would free
        # both.
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
    """The interface of a node to the server of the runtime."""

    def opened(self, session: Session) -> None: ...

    def closed(self, session: Session) -> None:
        """Note that the session is closed; called after `Session.lost`."""
        ...

    def receive(self, session: Session, frames: Sequence[RawFrame], now: int) -> None:
        """Handle frames in order; their bodies are valid only during this call.

        A server passes the frames of a client one by one (ADR 0107).
        """
        ...

    def end_of_turn(self, now: int) -> None:
        """Note the end of a turn, after all its reads."""
        ...
