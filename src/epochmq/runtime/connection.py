"""One TCP connection (asyncio protocol): reads into a shared buffer, writes a session's outbox.

The requests of a client are executed while the client's part of the turn lasts (`turn.py`) and its
answers are not too large. Then no more is read from the client, and the rest waits (ADR 0107).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Protocol, cast

from epochmq.base.errors import PeerError
from epochmq.base.ports import Buffer
from epochmq.model import host
from epochmq.runtime.bounds import Budget
from epochmq.runtime.clock import steady_ns
from epochmq.runtime.turn import Rank, Turn
from epochmq.wire.frame import FrameReader, RawFrame
from epochmq.wire.long_header import command_of, refusal_of
from epochmq.wire.session import FrameSink, Session

WRITE_HIGH_BYTES = 4 * 1024 * 1024
"""With more unsent bytes, the peer's requests are not read until the peer reads answers."""
WRITE_LOW_BYTES = 1024 * 1024
OUTBOX_BYTES_MAX = 1024 * 1024
"""With more bytes of answers that are not written yet, a client's further requests wait."""
LATE_BYTES = 4096
"""So much is read from a connection whose requests must wait for a later turn. Fewer bytes are few
requests, of a client that waits for the answers; they wait less."""
PIECE_BYTES = 1024 * 1024
"""Larger outboxes are joined and written in pieces of about this size."""

ALONE_BYTES = 64 * 1024
"""From this size on, writing a chunk separately costs less than copying it (ADR 0035)."""

KEPT_BYTES = 64 * 1024
"""A read below this size that completed a frame leaves few bytes of the next frame."""

RAW_MISSES = 8
"""After a read that `receive_raw` did not take, this many reads are not offered to it."""

RawReceiver = Callable[[Session, memoryview, int, int], int]
"""Type of a sink's `receive_raw`, which takes frames from the buffer.

Its arguments are (session, data, start, size); it returns the size of the frames that it took from
`start` on.
"""

_ids = count(1)


class Owner(Protocol):
    """The server or outgoing peer that a connection belongs to."""

    sink: FrameSink
    fast_port: bool
    unsent_bytes_max: int
    header_bytes_max: int
    shares_turns: bool
    """Whether the requests of a peer may wait, so that other peers have their part of a turn."""

    @property
    def unsent(self) -> Budget["Connection"] | None: ...

    @property
    def half_frames(self) -> Budget["Connection"] | None: ...

    def made(self, connection: "Connection") -> str | None:
        """Register a new connection; a returned text refuses it."""
        ...

    def slowed(self, connection: "Connection", slow: bool) -> None:
        """Note that the peer reads too slowly, or reads again."""
        ...

    def gone(self, connection: "Connection", reason: str) -> None:
        """Note that the connection is closed; `reason` is '' when the peer closed it."""
        ...


class Connection(asyncio.BufferedProtocol):
    """The protocol object of the event loop and the `wire.session.Transport` of one session."""

    __slots__ = (
        "_aborted",
        "_feed",
        "_half_frames",
        "_is_late",
        "_is_queued",
        "_loop",
        "_misses",
        "_opened",
        "_owner",
        "_rank",
        "_raw",
        "_reader",
        "_reason",
        "_shares_turns",
        "_sink",
        "_transport",
        "_turn",
        "_unread",
        "_unsent",
        "_waiting",
        "_waiting_bytes",
        "closing_since",
        "heard_ms",
        "sent_ms",
        "session",
        "stalled_since",
        "unsent_seen",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, turn: Turn, owner: Owner) -> None:
        self._loop = loop
        self._turn = turn
        self._owner = owner
        self._sink = owner.sink
        self._reader = FrameReader(owner.header_bytes_max)
        self._feed = self._reader.feed
        self._raw: RawReceiver | None = getattr(owner.sink, "receive_raw", None)
        self._misses = 0
        self._unsent = owner.unsent
        self._half_frames = owner.half_frames
        self._shares_turns = owner.shares_turns
        self._waiting: deque[RawFrame] = deque()
        """Frames that wait for a later turn, or until answers are written."""
        self._waiting_bytes = 0
        self._unread: bytearray | None = None
        """A read that waits for a later turn, before its frames are cut."""
        self._rank = Rank.SERVED
        """The rank of the rest of a read."""
        self._is_late = False
        """Whether the read that follows is kept for a later turn."""
        self._is_queued = False
        """Whether a later turn will call `run_waiting`."""
        self._reason = ""
        self._transport: asyncio.Transport
        self.session: Session
        self._opened = self._aborted = False
        self.heard_ms: int = -1  # no byte received yet
        self.sent_ms: int = self._now()
        self.closing_since: int | None = None
        self.stalled_since: int | None = None
        self.unsent_seen: int = 0

    # What the loop calls ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass
        self._transport = transport
        transport.set_write_buffer_limits(WRITE_HIGH_BYTES, WRITE_LOW_BYTES)
        peer_host, peer_port = _address(transport.get_extra_info("peername"))
        self.session = Session(
            next(_ids),
            self,
            peer=host.format_addr(peer_host, peer_port),
            peer_packed=host.pack(peer_host, peer_port),
            local=host.format_addr(*_address(transport.get_extra_info("sockname"))),
            fast_port=self._owner.fast_port,
            encrypted=transport.get_extra_info("ssl_object") is not None,
        )
        refusal = self._owner.made(self)
        if refusal is not None:
            self.abort(refusal)
            return
        self._opened = True
        try:
            self._sink.opened(self.session)
        except Exception as error:
            self._fail(error)

    def get_buffer(self, sizehint: int) -> memoryview:
        room, turn = self._reader.room, self._turn
        self._is_late = False
        if room is not None:
            return room
        if self._shares_turns and (
            self._waiting_bytes or self.session.outbox_bytes > OUTBOX_BYTES_MAX or turn.is_over()
        ):
            self._is_late = True
            return turn.buffer[:LATE_BYTES]
        return turn.buffer

    def buffer_updated(self, nbytes: int) -> None:
        turn = self._turn
        self.heard_ms = now = turn.begin(self._sink)
        try:
            if self._is_late:
                self._keep_unread(turn.buffer[:nbytes])
            elif self._reader.room is not None:
                self._read_on(nbytes, now)
            else:
                self._process(turn.buffer, nbytes, now)
        except PeerError as error:
            self.cut(str(error))
        except Exception as error:
            self._fail(error)

    def _process(self, buffer: memoryview, nbytes: int, now: int) -> None:
        """Process a read: `buffer[:nbytes]`."""
        start, skipped = 0, self._misses
        if skipped:
            self._misses = skipped - 1
        elif self._raw is not None:
            if self._reader.partial_since is None:
                start = self._raw(self.session, buffer, 0, nbytes)
            else:
                start = self._complete(self._raw, buffer, nbytes, now)
            if start == nbytes:
                return
        frames = self._feed(buffer[start:nbytes], now)
        if frames:
            if not start and not skipped:
                self._misses = RAW_MISSES
            self._receive(frames, nbytes, now)
        if self._reader.long_headers:
            self._refuse_long_headers()
        if not frames or nbytes > KEPT_BYTES:
            self._kept(nbytes)

    def _complete(self, raw: RawReceiver, buffer: memoryview, nbytes: int, now: int) -> int:
        """Complete the kept half frame first, then pass the rest of the read to `raw`."""
        start, whole = self._reader.feed_rest(buffer[:nbytes])
        if whole is None:
            self._kept(nbytes)
            return nbytes
        self._receive_whole(whole, now)
        if self.closing_since is not None or self.session.closed:
            return nbytes
        return start + raw(self.session, buffer, start, nbytes)

    def _read_on(self, nbytes: int, now: int) -> None:
        """Process a read that went into the buffer of the half frame."""
        before = self.half_frame
        whole = self._reader.filled(nbytes)
        if whole is not None:
            self._receive_whole(whole, now)
        elif (more := self.half_frame - before) > 0:
            self._count_half_frame(more)

    def _receive_whole(self, whole: bytearray, now: int) -> None:
        """Process one frame that arrived in several reads."""
        raw = self._raw
        if raw is None or not raw(self.session, memoryview(whole), 0, len(whole)):
            frames = self._feed(whole, now)
            if frames:
                self._receive(frames, len(whole), now)
            else:
                self._refuse_long_headers()

    # Requests that wait ----------------------------------------------------------------------

    def _receive(self, frames: list[RawFrame], nbytes: int, now: int) -> None:
        """Pass the frames of a read of `nbytes` to the sink while there is time; the rest waits."""
        if len(frames) == 1 or not self._shares_turns:
            self._sink.receive(self.session, frames, now)
            return
        done = self._run(frames, now)
        if done == len(frames) or self.closing_since is not None:
            return
        for frame in frames[done:]:
            body = memoryview(bytes(frame.body))
            self._waiting.append(RawFrame(frame.header, frame.binary, body))
        self._count_waiting(sum(map(_size_of, self._waiting)))
        self._rank = Rank.SHORT if nbytes < LATE_BYTES else Rank.SERVED
        self._wait(self._rank)

    def _run(self, frames: Sequence[RawFrame], now: int) -> int:
        """Pass frames to the sink while there is time, at least one; return their number."""
        session, receive = self.session, self._sink.receive
        end_ns = self._turn.share_end()
        for number, frame in enumerate(frames, start=1):
            receive(session, (frame,), now)
            if session.outbox_bytes > OUTBOX_BYTES_MAX or steady_ns() >= end_ns:
                return number
            if self.closing_since is not None:
                break
        return len(frames)

    def _keep_unread(self, data: memoryview) -> None:
        """Keep a read for a later turn: the time of this turn is over.

        If there was more to read, it stays with the system meanwhile.
        """
        if self._unread is None:
            self._unread = bytearray(data)
        else:
            self._unread += data
        self._count_waiting(len(data))
        self._wait(Rank.SHORT if len(data) < LATE_BYTES else Rank.LONG)

    def _count_waiting(self, nbytes: int) -> None:
        """Count `nbytes` that wait, against the limit of unfinished frames, and read no more."""
        self._waiting_bytes += nbytes
        self._count_half_frame(nbytes)
        self._read_or_pause()

    @property
    def waits(self) -> bool:
        """Whether received bytes wait for a later turn, or until answers are written."""
        return self._waiting_bytes > 0

    def _wait(self, rank: Rank) -> None:
        """Ask for `run_waiting` in a later turn, unless answers must be written first (`flush`)."""
        if not self._is_queued and self.session.outbox_bytes <= OUTBOX_BYTES_MAX:
            self._is_queued = True
            self._turn.wait(self, rank)

    def run_waiting(self) -> None:
        """Execute waiting requests for the connection's part of a turn; the turn calls this."""
        self._is_queued = False
        if self.closing_since is not None or self.stalled_since is not None:
            return  # `resume_writing` follows, or `connection_lost`
        now = self._turn.begin(self._sink)
        waiting, unread = self._waiting, self._unread
        try:
            if waiting:
                for _ in range(self._run(waiting, now)):
                    self._waiting_bytes -= _size_of(waiting.popleft())
            elif unread is not None:
                self._unread = None
                self._waiting_bytes -= len(unread)
                self._process(memoryview(unread), len(unread), now)
        except PeerError as error:
            self.cut(str(error))
        except Exception as error:
            self._fail(error)
        if self.waits:
            self._wait(self._rank)
        else:
            self._read_or_pause()

    def _read_or_pause(self) -> None:
        """Read from the peer while none of its requests wait and it takes its answers."""
        if self._transport.is_closing():
            return
        if self.waits or self.stalled_since is not None:
            self._transport.pause_reading()
        else:
            self._reader.begin_again(self._now())
            self._transport.resume_reading()

    def _refuse_long_headers(self) -> None:
        """Answer requests whose header is too long; a response like that ends the connection."""
        found, self._reader.long_headers = self._reader.long_headers, []
        for frame in found:
            command = command_of(frame)
            if command.is_response:
                raise PeerError(f"a response with a header of {frame.size} bytes")
            reply = refusal_of(command, frame.size, self._owner.header_bytes_max)
            self.session.answer(command, reply)

    def pause_writing(self) -> None:
        self.stalled_since = self._now()
        self.unsent_seen = self.unsent
        self._read_or_pause()
        self._owner.slowed(self, True)

    def resume_writing(self) -> None:
        self.stalled_since = None
        if self.waits:
            self._wait(self._rank)
        else:
            self._read_or_pause()
        self._owner.slowed(self, False)

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and not self._reason:
            self._reason = str(exc) or type(exc).__name__
        self.stalled_since = None
        self._reader.drop()
        self._waiting.clear()
        self._unread = None
        self._waiting_bytes = 0
        self._owner.slowed(self, False)
        try:
            self.session.lost()
            if self._opened:
                self._sink.closed(self.session)
        except Exception as error:
            self._turn.failed(error, f"{self.session.peer}: closing failed")
        self._owner.gone(self, self._reason)

    # What the session calls ------------------------------------------------------------------

    def wake(self) -> None:
        self._turn.dirty(self)

    def cut(self, reason: str) -> None:
        """Send what is queued, then close; the first reason is kept."""
        if self.closing_since is None:
            self.flush()
        if self.closing_since is None:
            self._end(reason)
            self._transport.close()

    def after(self, delay_ms: int, call: Callable[[], None]) -> Callable[[], None]:
        return self._loop.call_later(delay_ms / 1000, call).cancel

    # What the turn and the owner call --------------------------------------------------------

    @property
    def partial_since(self) -> int | None:
        """Since when a frame is incomplete (monotonic ms); None while nothing is read."""
        if self.waits or self.stalled_since is not None:
            return None
        return self._reader.partial_since

    @property
    def unsent(self) -> int:
        """Bytes that the kernel has not taken yet."""
        if self._aborted:
            return 0  # uvloop releases the bytes only in its next turn
        return self._transport.get_write_buffer_size()

    @property
    def half_frame(self) -> int:
        """Bytes of a frame that is not complete yet, and of frames that wait."""
        return self._reader.pending_bytes + self._waiting_bytes

    def flush(self) -> None:
        """Write the session's outbox; a peer with too many unread bytes is disconnected."""
        session = self.session
        total = session.outbox_bytes
        chunks = session.pop_outbox()
        transport = self._transport
        if not chunks or self.closing_since is not None or transport.is_closing():
            return
        self.sent_ms = self._turn.now
        budget = self._unsent
        if budget is not None:
            budget.seen += total
            if budget.seen > budget.limit and not budget.enforce(self, total):
                return
        if total <= PIECE_BYTES:
            transport.write(b"".join(chunks))
        elif total + self.unsent > self._owner.unsent_bytes_max:
            # Check before joining: the chunks are mostly views of files, joining copies them.
            unsent = total + self.unsent
            self.abort(f"does not read its answers: {unsent} bytes are unsent")
            return
        else:
            for piece in _pieces(chunks):
                transport.write(piece)
        if self.stalled_since is not None and self.unsent > self._owner.unsent_bytes_max:
            self.abort(f"does not read its answers: {self.unsent} bytes are unsent")
        elif self._waiting_bytes and self.stalled_since is None:
            self._wait(self._rank)

    def abort(self, reason: str) -> None:
        """Close at once; queued bytes are lost."""
        if self.closing_since is None:
            self._end(reason)
        self._aborted = True
        self._reader.drop()
        self._transport.abort()

    def _kept(self, nbytes: int) -> None:
        """Count the bytes that the last read left of an incomplete frame: `nbytes` at most."""
        more = self.half_frame if self._reader.make_room() else min(nbytes, self.half_frame)
        self._count_half_frame(more)

    def _count_half_frame(self, more: int) -> None:
        budget = self._half_frames
        if budget is not None:
            budget.seen += more
            if budget.seen > budget.limit:
                budget.enforce(self)

    def _end(self, reason: str) -> None:
        self._reason = reason
        self.closing_since = self._now()

    def _now(self) -> int:
        return steady_ns() // 1_000_000

    def _fail(self, error: Exception) -> None:
        self._turn.failed(error, f"{self.session.peer}: a request failed")
        if isinstance(error, MemoryError):
            self.abort("this process has no memory left for what it received")
        else:
            self.abort(f"{type(error).__name__} while handling what was received")


def _pieces(chunks: list[Buffer]) -> list[Buffer]:
    """Join the chunks into pieces of about `PIECE_BYTES`; a chunk is never split.

    Large read-only views of the log are written without copying them.
    """
    pieces: list[Buffer] = []
    start = size = 0
    for number, chunk in enumerate(chunks):
        if len(chunk) >= ALONE_BYTES and isinstance(chunk, memoryview) and chunk.readonly:
            if start < number:
                pieces.append(b"".join(chunks[start:number]))
            pieces.append(chunk)
            start, size = number + 1, 0
            continue
        size += len(chunk)
        if size >= PIECE_BYTES:
            pieces.append(b"".join(chunks[start : number + 1]))
            start, size = number + 1, 0
    if start < len(chunks):
        pieces.append(b"".join(chunks[start:]))
    return pieces


def _size_of(frame: RawFrame) -> int:
    """Return the bytes of a frame that are kept while it waits."""
    return len(frame.header) + len(frame.body)


def _address(name: object) -> tuple[str, int]:
    """Return (ip, port) of a socket name; an IPv4-mapped IPv6 address is shown as IPv4."""
    if not isinstance(name, tuple):
        return "0.0.0.0", 0  # the socket is closed already
    ip = str(name[0]).partition("%")[0]
    if ip.startswith("::ffff:") and "." in ip:
        ip = ip.removeprefix("::ffff:")
    return ip, int(name[1])
