"""A store and its fixed role in replication without controllers; `LinkedNode` does the rest."""

from collections.abc import Callable

from epochmq.base.errors import OurBug
from epochmq.replication.linked_node import LinkedNode, RunBlocking, run_inline
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.plain.plain_master import PlainMasterCore
from epochmq.replication.plain.slave import PlainSlaveCore
from epochmq.replication.replication_effects import Persist, Reset, Truncate
from epochmq.replication.replication_ports import StoreView
from epochmq.store.chores import Steps
from epochmq.store.store import Store


class PlainNode(LinkedNode[PlainMasterCore, PlainSlaveCore]):
    """One broker's plain replication: `master`, `follower` (slave), or neither before the start."""

    def __init__(
        self,
        store: Store,
        options: ReplicationOptions,
        run_blocking: RunBlocking = run_inline,
        read_clock: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(store, run_blocking, read_clock)
        self.options = options
        self.log = StoreView(store)
        self.alive: int | None = None
        """Number of living members, if there are acting masters; see `count_alive`."""

    def become_master(self, now: int, *, sync: bool) -> None:
        """Become ASYNC_MASTER, or with `sync` SYNC_MASTER."""
        self.leave(now)
        self.store.seal_tail()
        self.master = PlainMasterCore(self.log, self.options, sync=sync)
        self.master.alive = self.alive

    def count_alive(self, members: int) -> None:
        """Set the number of living members that the name servers report; sends may need fewer
        replicas then.
        """
        self.alive = members
        if self.master is not None:
            self.master.alive = members

    def change_options(self, options: ReplicationOptions) -> None:
        """Change what sends wait for, including those that wait; the rest changes with the next
        role.
        """
        self.options = options
        if self.master is not None:
            self.master.change_options(options)

    def become_slave(self, now: int) -> None:
        """Become SLAVE; the caller connects and calls `dialled`."""
        self.leave(now)
        self.follower = PlainSlaveCore(self.log, self.options)

    def _recheck(self, now: int) -> None:
        """Do nothing: without controllers a master has no lease."""

    def tick(self, now: int, wall: int = 0) -> None:
        del wall
        self._now = now
        core = self.master or self.follower
        if core is not None:
            self._carry_out(core.tick(now))

    def _steps_of(self, follower: PlainSlaveCore, effect: Truncate | Reset | Persist) -> Steps:
        del follower
        if isinstance(effect, Reset):
            return self.store.resetting(effect.offset)
        if isinstance(effect, Truncate):
            return self.store.cutting(effect.offset, effect.reason)
        raise OurBug(f"nobody carries out {effect}")

    def _steps_failed(
        self, follower: PlainSlaveCore, effect: Truncate | Reset | Persist, error: Exception
    ) -> None:
        self._give_up(error)
