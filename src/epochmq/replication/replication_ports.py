"""The interfaces of the replication cores to store, epochs and sockets."""

from collections.abc import Sequence
from typing import Any, Protocol

from epochmq.replication.frames import Entries
from epochmq.store.store import Store


class LogView(Protocol):
    """Start and end of the log, and the size of its files; offsets are bytes."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int:
        """Offset of the next byte."""
        ...

    @property
    def whole(self) -> int:
        """The offset up to which the log has complete records; a follower's log may end
        inside one.
        """
        ...

    @property
    def safe(self) -> int:
        """The offset up to which the log is kept according to the flush policy: synced,
        or written.
        """
        ...

    @property
    def confirmed(self) -> int: ...

    @property
    def file_bytes(self) -> int: ...


class EpochRange(Protocol):
    """The master of `epoch` wrote the bytes `[start, end)`."""

    @property
    def epoch(self) -> int: ...

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


class EpochView(Protocol):
    """The epochs of a log; `store.epochs.EpochFile` implements it."""

    @property
    def entries(self) -> Sequence[EpochRange]: ...

    @property
    def last_epoch(self) -> int:
        """The last epoch; -1 if there is none."""
        ...

    def newest(self) -> Sequence[EpochRange]:
        """Return the epochs for the reply to a handshake."""
        ...

    def entry_at(self, offset: int) -> EpochRange | None: ...

    def consistent_point(
        self, own_end: int, master_entries: Entries, master_end: int, confirmed: int = 0
    ) -> int | None:
        """Return the offset up to which this log and the master's are equal; None if that is not
        known.
        """
        ...


class Socket(Protocol):
    """A connected, non-blocking stream socket; its calls raise the errors of Python's sockets."""

    def fileno(self) -> int: ...

    def recv_into(self, buffer: Any) -> int: ...

    def send(self, data: Any, flags: int = 0) -> int: ...

    def sendmsg(self, buffers: Any) -> int: ...

    def send_file(self, file: int, position: int, size: int) -> int:
        """Write at most `size` bytes of an open file; return how many were written."""
        ...

    def close(self) -> None: ...


class Sockets(Protocol):
    """Makes sockets; `runtime.streams.StreamSockets` implements it."""

    def listen(self, host: str, port: int) -> tuple[Any, int]:
        """Return a listening socket and its port. Raises `PortInUse` or `EnvironmentFault`."""
        ...

    def accept(self, listener: Any) -> tuple[Any, str] | None:
        """Return a connected socket and the address of the peer, or None."""
        ...

    async def connect(self, host: str, port: int, timeout_ms: int) -> Any:
        """Return a connected socket. Raises `NotReachable`."""
        ...

    async def when_ready(self, sock: Any, *, writable: bool) -> None:
        """Wait until bytes can be read from `sock`, or written to it."""
        ...


# Store view ----------------------------------------------------------------------------------
# The view of the replication cores on a store.


class StoreView:
    """Implements `LogView` for a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pointers = store.pointers
        self._sync_flush = store.options.sync_flush
        self.file_bytes = store.options.commit_log_file_bytes

    @property
    def start(self) -> int:
        """First offset of the log."""
        return self._pointers.start

    @property
    def end(self) -> int:
        """End of what may be sent to followers."""
        return self._store.transferable

    @property
    def whole(self) -> int:
        """End of the complete records."""
        return self._store.whole_end

    @property
    def safe(self) -> int:
        """End of what is synced with sync flush, or written without it."""
        return self._pointers.synced if self._sync_flush else self._store.transferable

    @property
    def confirmed(self) -> int:
        """The confirmed offset."""
        return self._pointers.confirmed
