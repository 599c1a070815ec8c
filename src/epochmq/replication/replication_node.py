"""A store, its epochs and its role in controller mode; the service and the simulator use it.

Roles: none, master (the caller numbers the links of followers from 1 up), follower (of one master,
on link 0). `LinkedNode` has what this node shares with replication without controllers.
"""

from collections.abc import Callable
from functools import partial

from epochmq.base.errors import check
from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.replication.follower import FollowerCore
from epochmq.replication.in_sync import InSync
from epochmq.replication.linked_node import LinkedNode, RunBlocking, run_inline
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.replication_effects import (
    AdvanceConfirmed,
    Effect,
    Effects,
    Persist,
    Reset,
    SetProposal,
    Truncate,
)
from epochmq.replication.replication_master import MasterCore
from epochmq.replication.replication_ports import StoreView
from epochmq.store.chores import Steps
from epochmq.store.epochs import EpochFile, StaleEpoch
from epochmq.store.store import Store

PINGS_PER_SPAN = 8
"""Heartbeats to each member within the length of a lease, once the lease may end."""


class ReplicationNode(LinkedNode[MasterCore, FollowerCore]):
    """The replication of one broker in controller mode."""

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
        super().__init__(store, run_blocking, read_clock)
        self.epochs = epochs
        self.options = options
        self.own_id = own_id
        self.safeguards = safeguards
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
        super().appended(now)
        if self.master is not None and self._late_entry is not None:
            entry, self._late_entry = self._late_entry, None
            self.epochs.append(*entry)

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

    def _do(self, effect: Effect) -> None:
        if isinstance(effect, AdvanceConfirmed):
            self.store.limit_confirm(effect.offset)
            self._on_confirm(effect.offset)
        else:
            super()._do(effect)

    def _steps_of(self, follower: FollowerCore, effect: Truncate | Reset | Persist) -> Steps:
        if isinstance(effect, Persist):
            yield partial(self._persist, effect.entries)
        elif isinstance(effect, Reset):
            yield from self.store.resetting(effect.offset)
        else:
            yield from self._truncation(follower, effect)

    def _steps_failed(
        self, follower: FollowerCore, effect: Truncate | Reset | Persist, error: Exception
    ) -> None:
        if isinstance(effect, Persist):
            self._give_up(error)
            return
        suspended: Effects = []
        follower.suspend(str(error), suspended)
        self._carry_out(suspended)

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
