"""The master's sockets: accepts followers, and passes bytes between them and the core.

Log goes from the page cache to the socket: small pieces with their head in one call, larger ones by
`send_file` of the socket. There is no task and no await. The event loop calls back when a socket
can be read or written, so an appended message is sent to all followers in the same turn.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from epochmq.base.log_throttle import LogThrottle, also_left_out
from epochmq.base.ports import Clock, File
from epochmq.replication.link import Chunk
from epochmq.replication.link_authentication import LinkKeys, MasterHandshake, NotAuthenticated
from epochmq.replication.replication_ports import Socket, Sockets
from epochmq.store.cold_reads import ColdReads
from epochmq.store.log_memory import Prefetch

_log = logging.getLogger(__name__)

READ_BYTES = 16 * 1024
COPY_BYTES_MAX = 64 * 1024
"""Up to this size one call with head and body costs less than `sendfile` and a call for
the head."""
TURN_BYTES_MAX = 4 * 1024 * 1024
"""Bytes that one link may send before other links have their turn."""
HANDSHAKE_S = 5
"""A link must be authenticated within this time."""
REPORT_MS = 1_000
"""At most one refused link is logged in this time."""
ACCEPT_PAUSE_S = 0.1
"""Pause in seconds after a failed accept, for example without file descriptors."""
_MSG_MORE = 0x8000
"""Linux flag: more data follows at once, so the head is not sent alone."""


class LogFiles(Protocol):
    """Where the bytes of a chunk are; the store."""

    def slice(self, offset: int, size: int) -> memoryview: ...

    def file_of(self, offset: int) -> tuple[File, int, int] | None: ...

    def missing_records(
        self, places: Iterable[tuple[int, int]], *, ahead: int = ...
    ) -> Prefetch | None: ...


class MasterSide(Protocol):
    """The core, as its sockets use it."""

    def link_accepted(self, link: int, peer: str, now: int) -> None: ...

    def link_received(self, link: int, data: memoryview, now: int) -> None: ...

    def link_closed(self, link: int, now: int) -> None: ...

    def next_chunk(self, link: int, now: int) -> Chunk | None: ...


class Wire:
    """The socket of one follower."""

    __slots__ = ("_is_reading", "_loop", "_read_to", "_server", "_waiting", "_writing", "closed",
                 "number", "peer", "sock")  # fmt: skip

    def __init__(self, server: "LinkServer", number: int, sock: Socket, peer: str) -> None:
        self.number = number
        self.peer = peer
        self.sock = sock
        self.closed = False
        self._server = server
        self._loop = server.loop
        self._waiting: deque[memoryview | tuple[int, int]] = deque()
        """Data that the socket had no room for: bytes, or a range (offset, size) of the log."""
        self._writing = False
        self._is_reading = False
        """Whether another thread reads log from the device for this link."""
        self._read_to = 0
        """That thread has read the log up to this offset."""
        self._loop.add_reader(sock.fileno(), self._readable)

    def _readable(self) -> None:
        buffer = self._server.buffer
        try:
            count = self.sock.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._server.lost(self, str(error))
            return
        if count == 0:
            self._server.lost(self, "closed by the follower")
        else:
            self._server.heard(self, buffer[:count])

    def send(self, data: bytes) -> None:
        """Write `data`, or keep it until there is room."""
        if self.closed:
            return
        try:
            if self._waiting:
                self._waiting.append(memoryview(data))
            elif (done := self._write(data)) < len(data):
                self._waiting.append(memoryview(data)[done:])
                self._watch(True)
        except OSError as error:
            self._server.lost(self, str(error))

    def _write(self, data: bytes | memoryview, flags: int = 0) -> int:
        try:
            return self.sock.send(data, flags)
        except (BlockingIOError, InterruptedError):
            return 0

    def pump(self) -> None:
        """Send while there is data and the socket has room."""
        if self.closed:
            return
        server = self._server
        sent = 0
        try:
            while self._flush():
                chunk = server.side.next_chunk(self.number, server.clock.now_ms())
                if chunk is not None:
                    self._start(chunk)
                    sent += chunk.size
                if chunk is None or (chunk.is_last and not self._waiting):
                    self._watch(False)
                    return
                if sent >= TURN_BYTES_MAX:
                    self._loop.call_soon(self.pump)
                    return
            self._watch(not self._is_reading)
        except OSError as error:
            server.lost(self, str(error))

    def _start(self, chunk: Chunk) -> None:
        head, size = chunk.head, chunk.size
        if size > COPY_BYTES_MAX or (not chunk.is_last and self._must_wait(chunk.offset, size)):
            done = self._write(head, _MSG_MORE)
            if done < len(head):
                self._waiting.append(memoryview(head)[done:])
            self._waiting.append((chunk.offset, size))
            return
        body = self._server.files.slice(chunk.offset, size) if size else memoryview(b"")
        if len(body) != size:
            raise ConnectionError(f"the log at {chunk.offset} is gone")
        try:
            done = self.sock.sendmsg((head, body) if size else (head,))
        except (BlockingIOError, InterruptedError):
            done = 0
        if done < len(head):
            self._waiting.append(memoryview(head)[done:])
            done = len(head)
        if done < len(head) + size:
            at = done - len(head)
            self._waiting.append((chunk.offset + at, size - at))

    def _flush(self) -> bool:
        """Send waiting data. Return whether nothing is left."""
        waiting = self._waiting
        while waiting:
            first = waiting[0]
            if isinstance(first, memoryview):
                done, size = self._write(first), len(first)
                rest: memoryview | tuple[int, int] = first[done:]
            else:
                offset, size = first
                if self._must_wait(offset, size):
                    return False
                done = self._send_file(offset, size)
                rest = (offset + done, size - done)
            if done < size:
                waiting[0] = rest
                if done == 0:
                    return False
            else:
                waiting.popleft()
        return True

    def _must_wait(self, offset: int, size: int) -> bool:
        """Return whether this part of the log is not in memory; then another thread reads it."""
        cold_reads = self._server.cold_reads
        if self._is_reading or offset < self._read_to or cold_reads is None:
            return self._is_reading
        missing = self._server.files.missing_records([(offset, size)], ahead=TURN_BYTES_MAX)
        if missing is None or not cold_reads.has_room:
            return False

        def done() -> None:
            self._is_reading = False
            self._read_to = offset + size
            self._loop.call_soon(self.pump)

        self._is_reading = True
        cold_reads.run(missing, done)
        return True

    def _send_file(self, offset: int, size: int) -> int:
        found = self._server.files.file_of(offset)
        if found is None:
            raise ConnectionError(f"the log at {offset} is gone")
        file, position, room = found
        try:
            return self.sock.send_file(file.fileno(), position, min(size, room))
        except (BlockingIOError, InterruptedError):
            return 0

    def _watch(self, writable: bool) -> None:
        """Start or stop to be called when the socket has room."""
        if writable != self._writing:
            self._writing = writable
            if writable:
                self._loop.add_writer(self.sock.fileno(), self.pump)
            else:
                self._loop.remove_writer(self.sock.fileno())

    def close(self) -> None:
        """Close the socket."""
        if not self.closed:
            self.closed = True
            self._watch(False)
            self._loop.remove_reader(self.sock.fileno())
            self.sock.close()


class LinkServer:
    """The sockets of all followers of one broker, and of other clients of its replication port."""

    def __init__(
        self,
        side: MasterSide,
        files: LogFiles,
        sockets: Sockets,
        clock: Clock,
        after: Callable[[], None],
        broken: Callable[[Exception], None],
        keys: LinkKeys | None = None,
        cold_reads: ColdReads | None = None,
    ) -> None:
        """`cold_reads` reads log that has left the memory, for followers that are far behind; with
        None the event loop reads it.
        """
        self.side = side
        self.cold_reads = cold_reads
        self.files = files
        self.clock = clock
        self.loop = asyncio.get_running_loop()
        self.buffer = memoryview(bytearray(READ_BYTES))
        self.port = 0
        self.wires: dict[int, Wire] = {}
        self._sockets = sockets
        self._after = after
        """Called when the core may have effects to execute."""
        self._broken = broken
        """Called with an unexpected error."""
        self._keys = keys
        self._handshakes: dict[int, MasterHandshake] = {}
        """Links that are not authenticated yet; the core does not know them."""
        self._refusals = LogThrottle(REPORT_MS)
        self._listener: Any = None
        self._resuming: asyncio.TimerHandle | None = None
        self._failing = False
        """Accepts fail, which is logged once."""
        self._numbers = 0

    def start(self, host: str, port: int) -> int:
        """Listen, and return the port. Raises `PortInUse` or `EnvironmentFault`."""
        self._listener, self.port = self._sockets.listen(host, port)
        self.loop.add_reader(self._listener.fileno(), self._accept)
        return self.port

    def stop(self) -> None:
        """Stop listening and close all links."""
        if self._listener is not None:
            if self._resuming is None:
                self.loop.remove_reader(self._listener.fileno())
            else:
                self._resuming.cancel()
            self._listener.close()
            self._listener = None
        for number in list(self.wires):
            self.close(number, "the broker stops")

    def _accept(self) -> None:
        while self._listener is not None:
            try:
                found = self._sockets.accept(self._listener)
            except OSError as error:
                if not self._failing:
                    _log.warning("no follower can be accepted, it is tried again: %s", error)
                self._failing = True
                self._pause()
                return
            self._failing = False
            if found is None:
                return
            sock, peer = found
            self._numbers += 1
            wire = self.wires[self._numbers] = Wire(self, self._numbers, sock, peer)
            if self._keys is None:
                self._admit(wire)
            else:
                self._handshakes[wire.number] = MasterHandshake(self._keys, self.clock.now_ms())
                self.loop.call_later(HANDSHAKE_S, self._expire, wire.number)

    def _admit(self, wire: Wire) -> None:
        self.side.link_accepted(wire.number, wire.peer, self.clock.now_ms())
        self._after()

    def _authenticate(self, wire: Wire, data: memoryview) -> memoryview | None:
        """Process bytes of a link that is not authenticated; return those for the core, or None."""
        try:
            reply, rest = self._handshakes[wire.number].received(bytes(data))
        except NotAuthenticated as error:
            self._refuse(wire, str(error))
            return None
        if reply:
            wire.send(reply)
        if rest is None:
            return None
        del self._handshakes[wire.number]
        self._admit(wire)
        return memoryview(rest)

    def _expire(self, number: int) -> None:
        if number in self._handshakes:
            self._refuse(self.wires[number], f"no authentication within {HANDSHAKE_S} s")

    def _refuse(self, wire: Wire, reason: str) -> None:
        """Close a link that is not authenticated; the core has not heard of it."""
        left_out = self._refusals.left_out("", self.clock.now_ms())
        if left_out is not None:
            more = also_left_out(left_out)
            _log.warning("replication link of %s refused: %s%s", wire.peer, reason, more)
        self.close(wire.number, reason)

    def _pause(self) -> None:
        """Stop accepting for a moment, because the listener stays readable while accepts fail."""
        self.loop.remove_reader(self._listener.fileno())
        self._resuming = self.loop.call_later(ACCEPT_PAUSE_S, self._resume)

    def _resume(self) -> None:
        self._resuming = None
        self.loop.add_reader(self._listener.fileno(), self._accept)

    def heard(self, wire: Wire, data: memoryview) -> None:
        """Pass bytes of a follower to the core, once the link is authenticated."""
        try:
            if wire.number in self._handshakes:
                found = self._authenticate(wire, data)
                if not found:
                    return
                data = found
            self.side.link_received(wire.number, data, self.clock.now_ms())
            self._after()
            wire.pump()
        except Exception as error:
            self._broken(error)

    def lost(self, wire: Wire, reason: str) -> None:
        """Close a link after an error of its socket, and tell the core."""
        if not wire.closed:
            if self._handshakes.pop(wire.number, None) is not None:
                self.close(wire.number, reason)
                return
            self.close(wire.number, reason)
            self.side.link_closed(wire.number, self.clock.now_ms())
            self._after()

    def send(self, number: int, data: bytes) -> None:
        """Send bytes over a link."""
        wire = self.wires.get(number)
        if wire is not None:
            wire.send(data)

    def close(self, number: int, reason: str) -> None:
        """Close a link, without telling the core."""
        wire = self.wires.pop(number, None)
        self._handshakes.pop(number, None)
        if wire is not None:
            _log.info("follower %s: link closed: %s", wire.peer, reason)
            wire.close()

    def wake(self) -> None:
        """Send on all links: the log grew, or a link may send again."""
        for wire in list(self.wires.values()):
            wire.pump()
