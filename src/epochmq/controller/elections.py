"""When a group elects a master: the checks of all masters, and running elections.

Each group has at most one planned check, in a heap; heartbeats do not change it. A check that finds
the master alive plans the next one for the earliest time at which the master could be dead. So
1,000 groups cost 1,000 checks per lease, whatever their brokers send.
"""

import heapq
import logging
from collections.abc import Callable
from dataclasses import dataclass

from epochmq.base import limits
from epochmq.controller.commands import ElectMaster
from epochmq.controller.controller_context import ControllerContext
from epochmq.controller.controller_state import BrokerGroup, Key
from epochmq.controller.elect import ANYONE, By, ElectedMaster, LogReport, elect
from epochmq.controller.machine import CommandOutcome
from epochmq.controller.notices import Notices
from epochmq.controller.request_counts import NEW_MASTER, NO_MASTER

log = logging.getLogger(__name__)

Ended = Callable[[], None]


@dataclass(frozen=True, slots=True)
class LeadershipTransfer:
    """A request to make `by.wanted` the master; given up at `until_ms` (monotonic)."""

    by: By
    until_ms: int


class Elections:
    """The planned checks and running elections. `headless` are groups for which no master was
    found.
    """

    def __init__(self, context: ControllerContext, notices: Notices) -> None:
        self._context = context
        self._notices = notices
        self._heap: list[tuple[int, Key]] = []
        self._planned: dict[Key, int] = {}
        self._in_flight: set[Key] = set()
        self._windows: dict[Key, int] = {}
        self._first: dict[Key, int] = {}
        self._transfers: dict[Key, LeadershipTransfer] = {}
        self._waiting: dict[Key, list[Ended]] = {}
        self.headless: set[Key] = set()

    # Planned checks ---------------------------------------------------------------------------

    def plan(self, key: Key, at_ms: int) -> None:
        """Check the group at `at_ms`, or earlier if that is planned already."""
        planned = self._planned.get(key)
        if planned is None or at_ms < planned:
            self._planned[key] = at_ms
            heapq.heappush(self._heap, (at_ms, key))

    def soon(self, key: Key) -> None:
        """Check the group at the next `tick`."""
        self.plan(key, self._context.now)

    def start(self) -> None:
        """Check every group, after this controller became leader."""
        for key in self._context.machine.groups:
            self.soon(key)

    def stop(self) -> None:
        """Drop all checks and elections, after the leadership was lost."""
        for table in (self._planned, self._windows, self._first, self._transfers):
            table.clear()
        self._heap.clear()
        self._in_flight.clear()
        self.headless.clear()
        self._context.timeline.clear()
        for key in list(self._waiting):
            self._tell(key)

    def next_deadline(self) -> int | None:
        """Return when the next check is due, or None."""
        return self._heap[0][0] if self._heap else None

    def tick(self) -> None:
        """Run the checks that are due."""
        now = self._context.now
        while self._heap and self._heap[0][0] <= now:
            at_ms, key = heapq.heappop(self._heap)
            if self._planned.get(key) == at_ms:
                del self._planned[key]
                self._look(key)

    def under_way(self, key: Key) -> bool:
        """Whether the master may be about to change, so that no lease is given."""
        return key in self._in_flight or key in self._transfers

    def stepping_down(self, key: Key) -> bool:
        """Whether the master is asked to step down."""
        return key in self._transfers

    # Requests ---------------------------------------------------------------------------------

    def wait(self, key: Key, ended: Ended) -> None:
        """Call `ended` when the next check of the group has a result."""
        self._waiting.setdefault(key, []).append(ended)

    def wanted_by(self, key: Key, broker_id: int) -> None:
        """Note that a broker asks for an election; the first one wins a group without data
        (RIP-44).
        """
        self._first.setdefault(key, broker_id)
        self.soon(key)

    def transfer(self, key: Key, by: By, until_ms: int) -> None:
        """Make `by.wanted` the master when the lease of the present master is over."""
        self._transfers[key] = LeadershipTransfer(by, until_ms)
        self.soon(key)

    # Check of one group -----------------------------------------------------------------------

    def _look(self, key: Key) -> None:
        group = self._context.machine.groups.get(key)
        if group is None or not self._context.leads:
            self._tell(key)
        elif key not in self._in_flight:
            transfer = self._transfers.get(key)
            if transfer is not None:
                self._look_at_transfer(group, transfer)
            elif not group.elected:
                self._look_at_new(group)
            else:
                self._look_at_old(group)

    def _look_at_old(self, group: BrokerGroup) -> None:
        dead_at_ms = self._context.dead_at(group)
        if dead_at_ms > self._context.now:
            self.headless.discard(group.key)
            self.plan(group.key, dead_at_ms)
            if group.key in self._waiting and self._seems_well(group):
                self._tell(group.key)
            return
        by = By(unclean=self._context.unclean_allowed)
        choice = elect(group, self._context.electable(group.key), by, safe=self._context.safe)
        self._conclude(group, choice)

    def _seems_well(self, group: BrokerGroup) -> bool:
        """Whether the master not only has a lease but is connected, so that no election will
        follow.
        """
        live = None if group.master is None else self._context.live.get(group.key, group.master)
        return live is not None and not live.closed and not live.gone

    def _look_at_transfer(self, group: BrokerGroup, transfer: LeadershipTransfer) -> None:
        live = None if group.master is None else self._context.live.get(group.key, group.master)
        held = self._context.held_until(live)
        if group.master is None or not group.elected:
            held = 0
        if held > self._context.now:
            self.plan(group.key, min(held, transfer.until_ms))
            if transfer.until_ms > self._context.now:
                return
        del self._transfers[group.key]
        # A master that steps down stays alive as a follower.
        leaving = [] if live is None or live.closed or live.gone else [live.id]
        candidates = self._context.electable(group.key)
        choice = elect(group, candidates, transfer.by, leaving=leaving, safe=self._context.safe)
        if choice is None or held > self._context.now:
            self._tell(group.key)
            self.soon(group.key)
        else:
            self._conclude(group, choice)

    def _look_at_new(self, group: BrokerGroup) -> None:
        """Hold the first election, after all replicas with data had time to report (defects, part
        3.14).
        """
        key, now = group.key, self._context.now
        live = self._context.electable(key)
        if not live:
            return self._conclude(group, None)
        asker, by = self._first.get(key), ANYONE
        has_data = any(report.has_data for report in live.values())
        if has_data or asker not in live or any(r == LogReport() for r in live.values()):
            opened = self._windows.setdefault(key, now)
            window = self._context.options.first_election_window_millis
            if now < opened + window:
                return self.plan(key, opened + window)
        if not self._heard(group, live):
            return self._conclude(group, None)
        if has_data:
            if group.adopted and not self._all_there(group, live):
                log.warning(
                    "group %(group)s of cluster %(cluster)s was known once, and not all of its"
                    " brokers are back: start them, or choose a master by hand (electMaster)",
                    {"group": group.name, "cluster": key[0]},
                )
                return self._conclude(group, None)
        elif asker in live:
            by = By(asker)
        self._conclude(group, elect(group, live, by) or elect(group, live))

    def _all_there(self, group: BrokerGroup, live: dict[int, LogReport]) -> bool:
        """Whether all ids are alive. Ids are given from 1 up, so a missing id is a broker not back
        yet.
        """
        return self._context.unclean_allowed or all(n in live for n in range(1, group.next_id))

    def _heard(self, group: BrokerGroup, live: dict[int, LogReport]) -> bool:
        """Whether all living replicas reported their logs since they registered.

        Before that they may have acknowledged to a master that these controllers do not know (ADR
        0044).
        """
        if group.by_address or not group.adopted or self._context.unclean_allowed:
            return True
        return all(report != LogReport() for report in live.values())

    # Result -----------------------------------------------------------------------------------

    def _conclude(self, group: BrokerGroup, choice: ElectedMaster | None) -> None:
        key = group.key
        if choice is None:
            self._context.counts.elections[NO_MASTER] += 1
            self.headless.add(key)
            self.plan(key, self._context.now + self._context.options.scan_inactive_master_interval)
            self._tell(key)
            return
        live = self._context.live.of_group(key)
        reported = [live[number].report.epoch for number in group.replicas if number in live]
        highest = max([group.epoch, *(e for e in reported if e < limits.EPOCH_MAX)])
        event = ElectMaster(
            *key,
            epoch=group.epoch,
            set_epoch=group.set_epoch,
            master=choice.master,
            new_epoch=highest + 1,
            members=choice.members,
            unclean=choice.unclean,
        )
        if choice.unclean:
            log.error(
                "UNCLEAN election in group %(group)s of cluster %(cluster)s: broker %(master)d"
                " becomes master from outside the sync-state set %(members)s; what it does not"
                " hold is lost",
                {
                    "group": group.name,
                    "cluster": group.cluster,
                    "master": choice.master,
                    "members": group.members,
                },
            )
        self._in_flight.add(key)
        self._note_death(group)
        self._context.write(event, lambda outcome: self._elected(key, outcome))

    def _note_death(self, group: BrokerGroup) -> None:
        old = None if group.master is None else self._context.live.get(group.key, group.master)
        heard_ms = -1 if old is None else old.heard_ms
        self._context.timeline.detected(group.key, heard_ms, self._context.now)

    def _elected(self, key: Key, outcome: CommandOutcome | None) -> None:
        self._in_flight.discard(key)
        group = self._context.machine.groups.get(key)
        if outcome is not None and group is not None:
            if outcome.ok:
                self._windows.pop(key, None)
                self._first.pop(key, None)
                self.headless.discard(key)
                live = self._context.live.get(key, outcome.broker_id)
                if live is not None:
                    live.resigned = False
                log.info(
                    "group %(group)s of cluster %(cluster)s: broker %(master)d is master of epoch"
                    " %(epoch)d, set %(members)s",
                    {
                        "group": group.name,
                        "cluster": group.cluster,
                        "master": group.master,
                        "epoch": group.epoch,
                        "members": group.members,
                    },
                )
                self._context.counts.elections[NEW_MASTER] += 1
                self._context.timeline.elected(group, self._context.now)
                self._notices.announce(group)
            self.soon(key)
        self._tell(key)

    def _tell(self, key: Key) -> None:
        for ended in self._waiting.pop(key, []):
            ended()
