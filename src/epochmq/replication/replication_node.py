"""A store, its epochs and its role in replication; the service and the simulator use it.

All methods are plain calls. Effects on this store are executed here, in order. Effects on links and
on the controller are returned by `pop_effects`. Steps that wait for a device go through
`run_blocking`, for which the service has a thread. The core for which such a step runs takes
nothing meanwhile.

A cut of the log is completed even if the role or the link changes meanwhile. Until then no bytes
are taken from any master, and no role begins: see `reshaping` and `when_shaped`.

Roles: none, master (the caller numbers the links of followers from 1 up), follower (of one master,
on link 0).
"""

from collections.abc import Callable
from functools import partial

from epochmq.base.errors import EnvironmentFault, EpochError, OurBug, PeerError, check
from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.replication.ack_policy import AckStatus, Done
from epochmq.replication.copying import Copying
from epochmq.replication.follower import FollowerCore
from epochmq.replication.in_sync import InSync
from epochmq.replication.link import Chunk
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.replication_effects import (
    OWN_LINK,
    Acknowledge,
    AdvanceConfirmed,
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
    SetProposal,
    Trouble,
    Truncate,
)
from epochmq.replication.replication_master import MasterCore
from epochmq.replication.replication_ports import StoreView
from epochmq.store.chores import Steps
from epochmq.store.epochs import EpochFile, StaleEpoch
from epochmq.store.store import Store

PINGS_PER_SPAN = 8
"""Heartbeats to each member within the length of a lease, once the lease may end."""

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


class ReplicationNode(Copying):
    """The replication of one broker. `now` is monotonic ms; `wall` is Unix ms for stored data."""

    def __init__(
        self,
        store: Store,
        epochs: EpochFile,
        options: ReplicationOptions,
        *,
        own_id: int,
        safeguards: Safeguards = SAFE,
        run_blocking: RunBlocking = run_inline,
        read_clock: Callable[[], int] | None = None,
        on_confirm: Callable[[int], None] = lambda _offset: None,
    ) -> None:
        super().__init__(store, read_clock)
        self.epochs = epochs
        self.options = options
        self.own_id = own_id
        self.safeguards = safeguards
        self.master: MasterCore | None = None
        self.follower: FollowerCore | None = None
        self._run_blocking = run_blocking
        self._on_confirm = on_confirm
        self.registered: frozenset[int] | None = None
        """The ids that the controllers registered in this group, as far as they were asked. None:
        every follower's id is accepted."""
        self._may_acknowledge: Callable[[int], bool] = lambda _now: True
        """Called before the master acknowledges or confirms anything (S17)."""
        self._hold_span_ms: Callable[[], int] = lambda: 0
        """After the end of the lease the whole set may go on, if each member was heard within this
        time; 0: it may not (ADR 0044)."""
        self.log = StoreView(store)
        self._late_entry: tuple[int, int] | None = None
        self._forgetting = False
        self.reshaping = False
        """The log is being cut, or begins at another offset; only the blocking steps may use it."""
        self._when_shaped: list[Callable[[], None]] = []
        epochs.reconcile(store.pointers.start, store.pointers.appended)

    # Roles ------------------------------------------------------------------------------------

    def become_master(
        self, epoch: int, members: frozenset[int], set_epoch: int, now: int, wall: int = 0
    ) -> None:
        """Become the master of `epoch`; its entry is durable when this returns.

        Raises:
            StaleEpoch: the log has seen a newer epoch; nothing has changed.
        """
        start = self.prepare_master(epoch, now)
        if self.safeguards.epoch_entry_before_data:
            self.epochs.append(epoch, start)
        else:
            self._late_entry = (epoch, start)
        self.start_master(epoch, start, members, set_epoch, now, wall)

    def prepare_master(self, epoch: int, now: int) -> int:
        """Return where `epoch` will start; the broker has no role until `start_master`."""
        check(not self.reshaping, "no role begins while the log is cut")
        self.check_epoch(epoch)
        self.leave(now)
        self._adopt()
        return self.store.seal_tail()

    def shed_tail(self) -> None:
        """Give up the role and cut an incomplete record at the end; then `when_shaped`.

        `prepare_master` would cut it as well, but blocks.
        """
        self.leave(self._now)
        self._reshape(self.store.cutting_tail(), lambda _error: None)

    def check_epoch(self, epoch: int) -> None:
        """Raise `StaleEpoch` if this log knows a newer epoch than `epoch`."""
        last = self.epochs.last_epoch
        if epoch < last:
            raise StaleEpoch(f"the controller gave epoch {epoch}, this log has seen {last}")

    def start_master(
        self,
        epoch: int,
        start: int,
        members: frozenset[int],
        set_epoch: int,
        now: int,
        wall: int = 0,
    ) -> None:
        """Serve followers, after the entry (`epoch`, `start`) is durable."""
        self._now, self._wall = now, wall
        confirmed = self.store.pointers.confirmed
        self.store.limit_confirm(confirmed)
        in_sync = InSync(
            self.own_id,
            epoch,
            start,
            members,
            set_epoch,
            confirmed,
            now,
            self.options,
            self.safeguards,
        )
        self.master = MasterCore(
            self.log, self.epochs, in_sync, self.options, self.safeguards, self.registered
        )
        self._carry_out(self.master.moved(now))

    def become_follower(
        self, epoch: int, now: int, wall: int = 0, *, learner: bool, unclean_epoch: int = 0
    ) -> None:
        """Copy from the master of `epoch`; the caller connects and calls `dialled`.

        `unclean_epoch`: see `FollowerCore`.

        Raises:
            StaleEpoch: the log has seen a newer epoch.
        """
        check(not self.reshaping, "no role begins while the log is cut")
        self.check_epoch(epoch)
        self.leave(now)
        self._now, self._wall = now, wall
        self._adopt()
        self.store.limit_confirm(self.store.pointers.confirmed)
        self.follower = FollowerCore(
            self.log,
            self.epochs,
            self.options,
            self.own_id,
            epoch,
            learner=learner,
            unclean_epoch=unclean_epoch,
            safeguards=self.safeguards,
        )

    def _adopt(self) -> None:
        """Make a log that was written without a controller epoch 0, as on all replicas."""
        written = self.log.end > self.log.start
        if self.options.adopt_plain_log and not self.epochs.entries and written:
            self.epochs.append(0, 0)

    def leave(self, now: int) -> None:
        """Give up the role: links are closed, and waiting sends get FENCED."""
        self._now = now
        master, follower = self.master, self.follower
        self.master = self.follower = None
        if master is not None:
            master.fence("another role")
            self._out += [Close(link, "another role") for link in master.links]
        if follower is not None:
            follower.closed()
            self._out.append(Close(OWN_LINK, "another role"))

    # Followers' links -------------------------------------------------------------------------

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
        if self.master is not None:
            self._recheck(now)
            self._carry_out(self.master.received(link, data, now))

    def link_closed(self, link: int, now: int) -> None:
        """Note that the link of a follower is closed."""
        self._now = now
        if self.master is not None:
            self._recheck(now)
            self._carry_out(self.master.closed(link, now))

    def next_chunk(self, link: int, now: int) -> Chunk | None:
        """Return the next data for a link that has room: the head, then a piece of the log."""
        return self.master.next_chunk(link, now) if self.master is not None else None

    # The master -------------------------------------------------------------------------------

    def _recheck(self, now: int) -> None:
        """Check the lease again, because it may have ended during a pause (S17)."""
        master = self.master
        if master is None:
            return
        master.past_lease = not self._may_acknowledge(now)
        if master.fenced is not None or not master.past_lease:
            return
        if self.safeguards.deadline_recheck_after_pause and not self.holds(now):
            master.fence("the lease ran out")

    def may_serve(self, now: int) -> bool:
        """Whether this master may acknowledge: with its lease, or after it with the whole set."""
        return self._may_acknowledge(now) or self.holds(now)

    def holds(self, now: int) -> bool:
        """Whether the whole set follows this master, so that it needs no lease (ADR 0044)."""
        span_ms = self._hold_span_ms()
        master = self.master
        return span_ms > 0 and master is not None and master.is_whole(now, span_ms)

    def appended(self, now: int) -> None:
        """Note that the store grew; called once for all appends of a turn, before the
        links send.
        """
        self._now = now
        master = self.master
        if master is None:
            return
        store = self.store
        if store.options.transient_pool:
            store.commit()  # followers get only what is in the file
        self._recheck(now)
        self._carry_out(master.appended(now))
        if store.options.sync_flush and store.needs_sync:
            store.when_synced(store.pointers.appended, partial(self._synced_here, master))
        if self._late_entry is not None:
            entry, self._late_entry = self._late_entry, None
            self.epochs.append(*entry)

    def _synced_here(self, master: MasterCore, synced: bool) -> None:
        if synced and master is self.master:
            now = self._now = self._read_clock()
            self._recheck(now)
            self._carry_out(master.moved(now))

    def when_acked(self, offset: int, deadline_at_ms: int, done: Done, now: int) -> None:
        """See `MasterCore.when_acked`; `done` gets FENCED if this broker is not the master."""
        if self.master is None:
            done(AckStatus.FENCED)
            return
        self._recheck(now)
        self.master.when_acked(offset, deadline_at_ms, done)

    def refusal(self, now: int) -> AckStatus | None:
        """Return why a send must be refused now, or None."""
        if self.master is None:
            return AckStatus.FENCED
        self._recheck(now)
        return self.master.refusal(now)

    def lease(
        self, may_acknowledge: Callable[[int], bool], hold_span_ms: Callable[[], int] = lambda: 0
    ) -> None:
        """Set the functions that are called before each acknowledgement.

        Args:
            may_acknowledge: gets monotonic ms; False fences the master (S17), unless the whole set
                was heard within `hold_span_ms` (ADR 0044).
            hold_span_ms: returns milliseconds; 0 means that the whole set may not go on without a
                lease.
        """
        self._may_acknowledge = may_acknowledge
        self._hold_span_ms = hold_span_ms

    def fence(self, reason: str) -> None:
        """Stop acknowledging as master."""
        if self.master is not None:
            self.master.fence(reason)

    def unfence(self, now: int) -> None:
        """Continue as the master of the same epoch."""
        self._now = now
        if self.master is not None:
            self._carry_out(self.master.unfence(now))

    def set_committed(self, members: frozenset[int], set_epoch: int, now: int) -> None:
        """Note the controller's set."""
        self._now = now
        if self.master is not None:
            self._recheck(now)
            self._carry_out(self.master.set_committed(members, set_epoch, now))

    def replicas_told(self, registered: frozenset[int], now: int) -> None:
        """Handle the controllers' answer to `AskReplicas`."""
        self._now = now
        self.registered = registered
        if self.master is not None:
            self._recheck(now)
            self._carry_out(self.master.replicas_told(registered, now))

    def proposal_failed(self, proposal: SetProposal, now: int, *, refused: bool = False) -> None:
        """Note that a proposal failed, unless it is of another epoch."""
        self._now = now
        if self.master is not None and proposal.epoch == self.master.in_sync.epoch:
            self._recheck(now)
            self._carry_out(self.master.proposal_failed(proposal, now, refused))

    @property
    def _copier(self) -> FollowerCore | None:
        return self.follower

    # Time -------------------------------------------------------------------------------------

    def tick(self, now: int, wall: int = 0) -> None:
        """Do what is due at `now`."""
        self._now, self._wall = now, wall
        if self.master is not None:
            self._recheck(now)
            self.master.ping_ms = self._ping_ms(now)
            self._carry_out(self.master.tick(now))
        if self.follower is not None:
            self._carry_out(self.follower.tick(now))
        self._forget_epochs()

    def _ping_ms(self, now: int) -> int:
        """Return the interval of heartbeats while the lease ends soon, so that members are heard by
        then.
        """
        span_ms = self._hold_span_ms()
        if span_ms == 0 or self._may_acknowledge(now + span_ms // 2):
            return 0
        return max(1, span_ms // PINGS_PER_SPAN)

    def _forget_epochs(self) -> None:
        """Remove epochs whose log has been deleted."""
        entries, start = self.epochs.entries, self.store.pointers.start
        if len(entries) > 1 and entries[0].end < start and not self._forgetting:
            self._forgetting = True
            self._run_blocking(partial(self.epochs.cut_prefix, start), self._forgotten)

    def _forgotten(self, error: Exception | None) -> None:
        self._forgetting = error is not None  # not tried again after the disk failed

    def next_deadline(self, now: int) -> int:
        """Return when `tick` must be called at the latest."""
        if self.master is not None:
            return self.master.next_deadline(now)
        if self.follower is not None:
            return self.follower.next_deadline(now)
        return now + self.options.heartbeat_ms

    # Effects ----------------------------------------------------------------------------------

    def _carry_out(self, effects: Effects) -> None:
        """Execute effects in order. Steps of a follower that stop its core may wait for
        a device.
        """
        for index, effect in enumerate(effects):
            if isinstance(effect, Truncate | Reset | Persist):
                self._carry_out_held(effects[index:])
                return
            try:
                self._do(effect)
            except (EnvironmentFault, PeerError) as error:
                self._give_up(str(error))  # the effects that follow must not be acknowledged
                return

    def _do(self, effect: Effect) -> None:
        if isinstance(effect, AdvanceConfirmed):
            self.store.limit_confirm(effect.offset)
            self._on_confirm(effect.offset)
        elif isinstance(effect, AppendData):
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

    def _carry_out_held(self, effects: Effects) -> None:
        """Execute a truncation or another blocking effect, then the rest, then call `resumed`."""
        follower = self.follower
        if follower is None:
            return
        session = follower.session
        effect, rest = effects[0], effects[1:]

        def then(error: Exception | None) -> None:
            if follower is not self.follower or session != follower.session:
                return
            if error is not None and isinstance(effect, Persist):
                self._give_up(str(error))
            elif error is not None:
                suspended: Effects = []
                follower.suspend(str(error), suspended)
                self._carry_out(suspended)
            elif any(isinstance(e, Truncate | Reset | Persist) for e in rest):
                self._carry_out(rest)
            else:
                self._carry_out(rest)
                if session == follower.session:
                    self._carry_out(follower.resumed(session, self._read_clock()))

        if isinstance(effect, Persist):
            self._run_blocking(partial(self._persist, effect.entries), then)
        elif isinstance(effect, Reset):
            self._reshape(self.store.resetting(effect.offset), then)
        elif isinstance(effect, Truncate):
            self._reshape(self._truncation(follower, effect), then)

    def _persist(self, entries: tuple[tuple[int, int], ...]) -> None:
        for epoch, start in entries:
            self.epochs.append(epoch, start)

    def _truncation(self, follower: FollowerCore, effect: Truncate) -> Steps:
        """Return the steps that cut the log, then the epochs."""
        entries = list(follower.master_entries)
        adopt = partial(self.epochs.adopt, entries, effect.offset)
        if not self.safeguards.durable_truncation_first:
            yield adopt
        if effect.offset < self.store.pointers.appended:
            yield from self.store.cutting(
                effect.offset,
                effect.reason,
                operator=effect.operator,
                epochs=self.epochs.entries,
            )
            self.epochs.forget_suffix(effect.offset)
        yield adopt

    def _reshape(self, steps: Steps, then: Then) -> None:
        """Run all steps, one at a time, then call `then` with the error that ended
        them, or None.
        """
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

    @property
    def reading(self) -> bool:
        return super().reading and not self.reshaping

    def transferred(self) -> dict[int, int]:
        """Return bytes of log by link since its start; 0 is the link to the master."""
        if self.master is not None:
            return {link.number: link.sent_bytes for link in self.master.links.values()}
        return {0: self.follower.received_bytes} if self.follower is not None else {}

    def statistics(self) -> dict[str, int]:
        """Return the state of the present role as numbers."""
        if self.master is not None:
            return self.master.statistics()
        return self.follower.statistics() if self.follower is not None else {}
