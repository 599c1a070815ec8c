"""The copying side of a node: the log of its master arrives over one link."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from epochmq.base.errors import EnvironmentFault, PeerError
from epochmq.replication.frames import LinkState
from epochmq.replication.replication_effects import (
    OWN_LINK,
    AskReplicas,
    Close,
    Effects,
    ProposeSyncStateSet,
    SendData,
    Trouble,
)
from epochmq.store.store import Store

Outward = SendData | Close | ProposeSyncStateSet | AskReplicas | Trouble


class Copier(Protocol):
    """The core that copies: `FollowerCore` or `PlainSlaveCore`."""

    state: LinkState
    session: int

    @property
    def wants(self) -> bool: ...
    @property
    def direct(self) -> int: ...
    def connected(self, now: int) -> Effects: ...
    def receive(self, data: bytes | bytearray | memoryview, now: int) -> Effects: ...
    def wrote(self, count: int, now: int) -> Effects: ...
    def synced(self, session: int, now: int) -> Effects: ...
    def closed(self) -> None: ...


class Copying(ABC):
    """The events of the link to the master, which the caller of a node reports."""

    def __init__(self, store: Store, read_clock: Callable[[], int] | None = None) -> None:
        """`read_clock` returns monotonic ms for callbacks of the store or of a thread."""
        self.store = store
        self._now = 0
        self._read_clock = read_clock or (lambda: self._now)
        self._out: list[Outward] = []
        self._wall = 0

    def pop_effects(self) -> list[Outward]:
        """Return the effects for the caller, in order; each is returned once."""
        out, self._out = self._out, []
        return out

    @property
    @abstractmethod
    def _copier(self) -> Copier | None:
        """The core, while this broker copies; else None."""

    @abstractmethod
    def _carry_out(self, effects: Effects) -> None: ...

    @property
    def reading(self) -> bool:
        """Whether bytes of the master may be given now."""
        return self._copier is not None and self._copier.wants

    @property
    def established(self) -> bool:
        """Whether the handshake succeeded, so that log is transferred."""
        return self._copier is not None and self._copier.state is LinkState.TRANSFER

    @property
    def whole_end(self) -> int:
        """The offset up to which the log has complete, checked records."""
        return self.store.whole_end

    @property
    def suspended(self) -> bool:
        """Whether an operator must help before a connection makes sense."""
        return self._copier is not None and self._copier.state is LinkState.SUSPEND

    def dialled(self, now: int) -> None:
        """Note that the connection to the master is open."""
        self._now = now
        if self._copier is not None:
            self._carry_out(self._copier.connected(now))

    def received(self, data: bytes | bytearray | memoryview, now: int, wall: int = 0) -> None:
        """Handle bytes of the master; only while `reading`."""
        self._now, self._wall = now, wall
        if self._copier is not None:
            self._carry_out(self._copier.receive(data, now))

    def direct_space(self, least: int = 1) -> memoryview | None:
        """Return log space into which the next bytes may be received, if at least `least` are
        expected.
        """
        copier = self._copier
        if copier is None or copier.direct < least:
            return None
        return self.store.raw_space(copier.direct)

    def direct_received(self, count: int, now: int, wall: int = 0) -> None:
        """Note that `count` bytes were received into `direct_space`."""
        self._now, self._wall = now, wall
        if self._copier is None:
            return
        try:
            self.store.raw_written(count, wall)
        except (EnvironmentFault, PeerError) as error:
            self._give_up(str(error))
            return
        self._carry_out(self._copier.wrote(count, now))

    def hung_up(self, now: int) -> None:
        """Note that the connection to the master is closed."""
        self._now = now
        if self._copier is not None:
            self._copier.closed()

    def _await_sync(self, offset: int) -> None:
        """Tell the core when the device has the log up to `offset`."""
        copier = self._copier
        if copier is None:
            return
        session = copier.session

        def done(synced: bool) -> None:
            if synced and copier is self._copier:
                self._carry_out(copier.synced(session, self._read_clock()))

        self.store.when_synced(offset, done)
        if self.store.on_append is not None:
            self.store.on_append()  # wakes the group commit

    def _give_up(self, reason: str) -> None:
        """Close this connection; the next one begins with what is really in the log."""
        if self._copier is not None:
            self._copier.closed()
        self._out += [Trouble(reason), Close(OWN_LINK, reason)]
