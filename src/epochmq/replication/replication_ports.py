"""What the cores read of the store; the store's own objects fit, and so do a test's."""

from collections.abc import Sequence
from typing import Any, Protocol

from epochmq.replication.frames import Entries
from epochmq.store.store import Store


class LogView(Protocol):
    """Where the log begins and ends, and how large its files are."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int:
        """Where the next byte goes."""
        ...

    @property
    def whole(self) -> int:
        """Up to here the log is whole records; a follower's may end inside one."""
        ...

    @property
    def safe(self) -> int:
        """Up to here the log is kept as the flush policy wants it: synced, or just written."""
        ...

    @property
    def confirmed(self) -> int: ...

    @property
    def file_bytes(self) -> int: ...


class EpochRange(Protocol):
    """Bytes `[start, end)` were written by the master of `epoch`."""

    @property
    def epoch(self) -> int: ...

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


class EpochView(Protocol):
    """The epochs of a log; `store.epochs.EpochFile` is one."""

    @property
    def entries(self) -> Sequence[EpochRange]: ...

    @property
    def last_epoch(self) -> int:
        """-1 for none."""
        ...

    def newest(self) -> Sequence[EpochRange]:
        """What goes into a handshake reply."""
        ...

    def entry_at(self, offset: int) -> EpochRange | None: ...

    def consistent_point(
        self, own_end: int, master_entries: Entries, master_end: int, confirmed: int = 0
    ) -> int | None:
        """Up to where this log and the master's are one; None: nobody can tell."""
        ...


class Socket(Protocol):
    """A connected, non-blocking stream socket; the calls raise as Python's own do."""

    def fileno(self) -> int: ...

    def recv_into(self, buffer: Any) -> int: ...

    def send(self, data: Any, flags: int = 0) -> int: ...

    def sendmsg(self, buffers: Any) -> int: ...

    def close(self) -> None: ...


class Sockets(Protocol):
    """Makes them; the real one is `runtime.streams.StreamSockets`."""

    def listen(self, host: str, port: int) -> tuple[Any, int]:
        """A listening socket and its port. `PortInUse`, `EnvironmentFault`."""
        ...

    def accept(self, listener: Any) -> tuple[Any, str] | None:
        """A connected socket and who it is, or None."""
        ...

    async def connect(self, host: str, port: int, timeout_ms: int) -> Any:
        """A connected socket. `NotReachable`."""
        ...


# Store view ----------------------------------------------------------------------------------
# How the cores of replication see a store: where its log begins and ends, and what is safe.


class StoreView:
    """`ports.LogView` on a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pointers = store.pointers
        self._sync_flush = store.options.sync_flush
        self.file_bytes = store.options.commit_log_file_bytes

    @property
    def start(self) -> int:
        return self._pointers.start

    @property
    def end(self) -> int:
        return self._store.transferable

    @property
    def whole(self) -> int:
        return self._store.whole_end

    @property
    def safe(self) -> int:
        return self._pointers.synced if self._sync_flush else self._store.transferable

    @property
    def confirmed(self) -> int:
        return self._pointers.confirmed
