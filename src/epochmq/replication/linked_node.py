"""What both replication nodes have in common: links of followers, and one link to a master.

`ReplicationNode` (controller mode) and `PlainNode` (without controllers) give it their cores and
carry out what only they know. All methods are plain calls. Effects on the store are executed here,
in order. Effects on links and on the controller are returned by `pop_effects`. Steps that wait for
a device go through `run_blocking`, for which the service has a thread. The core for which such a
step runs takes nothing meanwhile.

A cut of the log is completed even if the role or the link changes meanwhile. Until then no bytes
are taken from any master, and no role begins: see `reshaping` and `when_shaped`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

from epochmq.base.errors import EnvironmentFault, EpochError, OurBug, PeerError
from epochmq.replication.ack_policy import AckStatus, Done
from epochmq.replication.frames import LinkState
from epochmq.replication.link import Chunk
from epochmq.replication.replication_effects import (
    OWN_LINK,
    Acknowledge,
    AppendData,
    AskReplicas,
    AwaitSync,
    Close,
    Effect,
    Effects,
    Persist,
    ProposeSyncStateSet,
    Reset,
    SendData,
    Trouble,
    Truncate,
)
from epochmq.store.chores import Steps
from epochmq.store.follow import DamagedStream
from epochmq.store.store import Store

Outward = SendData | Close | ProposeSyncStateSet | AskReplicas | Trouble
Then = Callable[[Exception | None], None]
RunBlocking = Callable[[Callable[[], None], Then], None]


def run_inline(call: Callable[[], None], then: Then) -> None:
    """Run a blocking step at once."""
    try:
        call()
    except OurBug:
        raise
    except EpochError as error:
        then(error)
    else:
        then(None)


class LeadingCore(Protocol):
    """The core that serves followers: `MasterCore` or `PlainMasterCore`."""

    def accepted(self, number: int, peer: str, now: int, /) -> Effects: ...
    def received(
        self, number: int, data: bytes | bytearray | memoryview, now: int, /
    ) -> Effects: ...
    def closed(self, number: int, now: int, /) -> Effects: ...
    def next_chunk(self, number: int, now: int, /) -> Chunk | None: ...
    def appended(self, now: int) -> Effects: ...
    def moved(self, now: int) -> Effects: ...
    def when_acked(self, offset: int, deadline_at_ms: int, done: Done) -> None: ...
    def refusal(self, now: int) -> AckStatus | None: ...
    def fence(self, reason: str) -> None: ...
    def sent_bytes(self) -> dict[int, int]: ...
    def statistics(self) -> dict[str, int]: ...


class CopyingCore(Protocol):
    """The core that copies a master: `FollowerCore` or `PlainSlaveCore`."""

    state: LinkState
    session: int
    received_bytes: int

    @property
    def wants(self) -> bool: ...
    @property
    def direct(self) -> int: ...
    def connected(self, now: int) -> Effects: ...
    def receive(self, data: bytes | bytearray | memoryview, now: int) -> Effects: ...
    def wrote(self, count: int, now: int) -> Effects: ...
    def acknowledge(self, now: int) -> Effects: ...
    def synced(self, session: int, now: int) -> Effects: ...
    def resumed(self, session: int, now: int) -> Effects: ...
    def closed(self) -> None: ...
    def statistics(self) -> dict[str, int]: ...


LeadingT = TypeVar("LeadingT", bound=LeadingCore)
CopyingT = TypeVar("CopyingT", bound=CopyingCore)


class LinkedNode(ABC, Generic[LeadingT, CopyingT]):
    """A store, its role, and the events of its links, which the caller reports.

    `now` is monotonic ms; `wall` is Unix ms for stored data.
    """

    def __init__(
        self,
        store: Store,
        run_blocking: RunBlocking = run_inline,
        read_clock: Callable[[], int] | None = None,
    ) -> None:
        """`read_clock` returns monotonic ms for callbacks of the store or of a thread."""
        self.store = store
        self.master: LeadingT | None = None
        """The core, while this broker is the master."""
        self.follower: CopyingT | None = None
        """The core, while this broker copies a master."""
        self._now = 0
        self._wall = 0
        self._run_blocking = run_blocking
        self._read_clock = read_clock or (lambda: self._now)
        self._out: list[Outward] = []
        self.reshaping = False
        """The log is being cut, or begins at another offset; only the blocking steps may use it."""
        self._when_shaped: list[Callable[[], None]] = []

    # What each node gives ---------------------------------------------------------------------

    @abstractmethod
    def _steps_of(self, follower: CopyingT, effect: Truncate | Reset | Persist) -> Steps:
        """Return the blocking steps of an effect."""

    @abstractmethod
    def _steps_failed(
        self, follower: CopyingT, effect: Truncate | Reset | Persist, error: Exception
    ) -> None:
        """Handle the error that ended the blocking steps of an effect."""

    @abstractmethod
    def tick(self, now: int, wall: int = 0) -> None:
        """Do what is due at `now`."""

    @abstractmethod
    def _recheck(self, now: int) -> None:
        """Check that the master may still acknowledge at `now`."""

    # Roles ------------------------------------------------------------------------------------

    def leave(self, now: int) -> None:
        """Give up the role: links are closed, and waiting sends get FENCED."""
        self._now = now
        master, follower = self.master, self.follower
        self.master = self.follower = None
        if master is not None:
            master.fence("another role")
            self._out += [Close(link, "another role") for link in master.sent_bytes()]
        if follower is not None:
            follower.closed()
            self._out.append(Close(OWN_LINK, "another role"))

    def shed_tail(self) -> None:
        """Give up the role and cut an incomplete record at the end; then `when_shaped`.

        `Store.seal_tail` would cut it as well, but blocks.
        """
        self.leave(self._now)
        self._reshape(self.store.cutting_tail("incomplete record"), lambda _error: None)

    def fence(self, reason: str) -> None:
        """Stop acknowledging as master."""
        if self.master is not None:
            self.master.fence(reason)

    # Links of followers -----------------------------------------------------------------------

    def link_accepted(self, link: int, peer: str, now: int) -> None:
        """Note a new connection; it is closed unless this broker is the master."""
        self._now = now
        if self.master is None:
            self._out.append(Close(link, "this broker is not the master"))
        else:
            self._carry_out(self.master.accepted(link, peer, now))

    def link_received(self, link: int, data: bytes | bytearray | memoryview, now: int) -> None:
        """Handle bytes of a follower."""
        self._now = now
        master = self.master
        if master is not None:
            self._recheck(now)
            self._carry_out(master.received(link, data, now))

    def link_closed(self, link: int, now: int) -> None:
        """Note that the link of a follower is closed."""
        self._now = now
        master = self.master
        if master is not None:
            self._recheck(now)
            self._carry_out(master.closed(link, now))

    def next_chunk(self, link: int, now: int) -> Chunk | None:
        """Return the next data for a link that has room: the head, then a piece of the log."""
        master = self.master
        return master.next_chunk(link, now) if master is not None else None

    # The master's log -------------------------------------------------------------------------

    def appended(self, now: int) -> None:
        """Note that the store grew; called once for all appends of a turn, before links send."""
        self._now = now
        master, store = self.master, self.store
        if master is None:
            return
        if store.options.transient_pool:
            store.commit()  # followers get only what is in the file
        self._recheck(now)
        if effects := master.appended(now):
            self._carry_out(effects)
        if store.options.sync_flush and store.needs_sync:
            store.when_synced(store.pointers.appended, partial(self._synced_here, master))

    def _synced_here(self, master: LeadingT, synced: bool) -> None:
        if synced and master is self.master:
            now = self._now = self._read_clock()
            self._recheck(now)
            if effects := master.moved(now):
                self._carry_out(effects)

    def when_acked(self, offset: int, deadline_at_ms: int, done: Done, now: int) -> None:
        """Call `done` once the data up to `offset` is acknowledged, in the order of the log.

        `done` gets FENCED if this broker is not the master.
        """
        master = self.master
        if master is None:
            done(AckStatus.FENCED)
            return
        self._recheck(now)
        master.when_acked(offset, deadline_at_ms, done)

    def refusal(self, now: int) -> AckStatus | None:
        """Return why a send must be refused now, or None."""
        master = self.master
        if master is None:
            return AckStatus.FENCED
        self._recheck(now)
        return master.refusal(now)

    # The link to the master -------------------------------------------------------------------

    @property
    def reading(self) -> bool:
        """Whether bytes of the master may be given now."""
        follower = self.follower
        return follower is not None and follower.wants and not self.reshaping

    @property
    def established(self) -> bool:
        """Whether the handshake succeeded, so that log is transferred."""
        return self.follower is not None and self.follower.state is LinkState.TRANSFER

    @property
    def whole_end(self) -> int:
        """The offset up to which the log has complete, checked records."""
        return self.store.whole_end

    @property
    def suspended(self) -> bool:
        """Whether an operator must help before a connection makes sense."""
        return self.follower is not None and self.follower.state is LinkState.SUSPEND

    def dialled(self, now: int) -> None:
        """Note that the connection to the master is open."""
        self._now = now
        if self.follower is not None:
            self._carry_out(self.follower.connected(now))

    def received(self, data: bytes | bytearray | memoryview, now: int, wall: int = 0) -> None:
        """Handle bytes of the master; only while `reading`."""
        self._now, self._wall = now, wall
        if self.follower is not None:
            self._carry_out(self.follower.receive(data, now))

    def direct_space(self, least: int = 1) -> memoryview | None:
        """Return log space for the next bytes, if at least `least` are expected."""
        follower = self.follower
        if follower is None or follower.direct < least:
            return None
        return self.store.raw_space(follower.direct)

    def direct_received(self, count: int, now: int, wall: int = 0) -> None:
        """Note that `count` bytes were received into `direct_space`."""
        self._now, self._wall = now, wall
        if self.follower is None:
            return
        try:
            self.store.raw_written(count, wall)
        except (EnvironmentFault, PeerError) as error:
            self._give_up(error)
            return
        self._carry_out(self.follower.wrote(count, now))

    def hung_up(self, now: int) -> None:
        """Note that the connection to the master is closed."""
        self._now = now
        if self.follower is not None:
            self.follower.closed()

    def _give_up(self, error: Exception) -> None:
        """Close this connection; the next one begins with what is really in the log."""
        if self.follower is not None:
            self.follower.closed()
        reason = str(error)
        self._out += [Trouble(reason), Close(OWN_LINK, reason)]
        if isinstance(error, DamagedStream):
            self._reshape(
                self.store.cutting_tail("damaged bytes from the master"), lambda _error: None
            )

    # Effects ----------------------------------------------------------------------------------

    def pop_effects(self) -> list[Outward]:
        """Return the effects for the caller, in order; each is returned once."""
        out, self._out = self._out, []
        return out

    def _carry_out(self, effects: Effects) -> None:
        """Execute effects in order; steps of a follower that stop its core may wait for a disk."""
        for index, effect in enumerate(effects):
            if isinstance(effect, Truncate | Reset | Persist):
                self._carry_out_held(effect, effects[index + 1 :])
                return
            try:
                self._do(effect)
            except (EnvironmentFault, PeerError) as error:
                self._give_up(error)  # the effects that follow must not be acknowledged
                return

    def _do(self, effect: Effect) -> None:
        """Execute an effect that does not block."""
        if isinstance(effect, AppendData):
            self.store.append_raw(effect.offset, effect.data, self._wall)
        elif isinstance(effect, Acknowledge):
            if self.follower is not None:
                self._carry_out(self.follower.acknowledge(self._now))
        elif isinstance(effect, AwaitSync):
            self._await_sync(effect.offset)
        elif isinstance(effect, SendData | Close | ProposeSyncStateSet | AskReplicas | Trouble):
            self._out.append(effect)
        else:
            raise OurBug(f"nobody carries out {effect}")

    def _await_sync(self, offset: int) -> None:
        """Tell the core when the device has the log up to `offset`."""
        follower = self.follower
        if follower is None:
            return
        session = follower.session

        def done(synced: bool) -> None:
            if synced and follower is self.follower:
                self._carry_out(follower.synced(session, self._read_clock()))

        self.store.when_synced(offset, done)
        if self.store.on_append is not None:
            self.store.on_append()  # wakes the group commit

    # Blocking effects -------------------------------------------------------------------------

    def _carry_out_held(self, effect: Truncate | Reset | Persist, rest: Effects) -> None:
        """Execute a blocking effect, then the rest, then call `resumed` of the core."""
        follower = self.follower
        if follower is None:
            return
        session = follower.session

        def then(error: Exception | None) -> None:
            if follower is not self.follower or session != follower.session:
                return
            if error is not None:
                self._steps_failed(follower, effect, error)
                return
            self._carry_out(rest)
            held = any(isinstance(other, Truncate | Reset | Persist) for other in rest)
            if not held and session == follower.session:
                self._carry_out(follower.resumed(session, self._read_clock()))

        if isinstance(effect, Persist):
            (step,) = self._steps_of(follower, effect)
            self._run_blocking(step, then)
        else:
            self._reshape(self._steps_of(follower, effect), then)

    def _reshape(self, steps: Steps, then: Then) -> None:
        """Run all steps, one at a time, then call `then` with the error that ended them, or None.

        Steps that arrive while others run wait until these have ended.
        """
        if self.reshaping:
            self._when_shaped.append(partial(self._reshape, steps, then))
            return
        self.reshaping = True

        def go_on(error: Exception | None) -> None:
            ended: Exception | None = None
            try:
                step = next(steps) if error is None else steps.throw(error)
            except StopIteration:
                pass
            except OurBug:
                raise
            except EpochError as caught:
                ended = caught
            else:
                self._run_blocking(step, go_on)
                return
            self.reshaping = False
            then(ended)
            self._shaped()

        go_on(None)

    def when_shaped(self, call: Callable[[], None]) -> None:
        """Call `call` when the log is not being cut: now, or after the last step."""
        self._when_shaped.append(call)
        self._shaped()

    def _shaped(self) -> None:
        while self._when_shaped and not self.reshaping:
            self._when_shaped.pop(0)()

    # Figures ----------------------------------------------------------------------------------

    def transferred(self) -> dict[int, int]:
        """Return bytes of log by link since its start; 0 is the link to the master."""
        if self.master is not None:
            return self.master.sent_bytes()
        return {OWN_LINK: self.follower.received_bytes} if self.follower is not None else {}

    def statistics(self) -> dict[str, int]:
        """Return the state of the present role as numbers."""
        core = self.master or self.follower
        return core.statistics() if core is not None else {}
