"""A broker that also moves on delayed messages: the product's schedule, delivery and outlet.

What `broker/service.py`, `membership/switch.py` and `replica_sync` do around them on the loop is
done here on the heap. The progress file is saved behind a sync of the log; followers copy the
master's.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from epochmq.base.errors import EnvironmentFault
from epochmq.broker.membership.effects import BecomeMaster
from epochmq.broker.metadata.files import load_table
from epochmq.broker.outlet.core import Done, Local, Origin, Outcome, Outlet
from epochmq.broker.schedule.core import Schedule
from epochmq.broker.schedule.delayed import delay
from epochmq.broker.schedule.delivery import Delivery
from epochmq.broker.schedule.offsets import DelayOffsets
from epochmq.model.names import SCHEDULE_TOPIC
from epochmq.replication.ack_policy import AckStatus
from epochmq.store.draft import Draft
from epochmq.store.visibility import Arrivals
from epochmq.wire import json_tolerant
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, Reply, request
from sim.brokers import Broker
from sim.host import Host
from sim.rpc import Session
from sim.world import MS

if TYPE_CHECKING:
    from sim.secondary_world import SecondaryHistory

SAVE_MS = 200
COPY_MS = 100


class SecondaryBroker(Broker):
    """A broker of a group with delayed messages."""

    history: "SecondaryHistory"
    settle_at: int | None = None

    def furnish(self, host: Host) -> None:
        self.schedule = Schedule(self.history.delays_ms)
        local = Local(
            self.store,
            sync_flush=self.history.sync_flush,
            kept=self._kept,
            writable=lambda: self.may_serve(self.host.now),
        )
        self.outlet = Outlet(Watched(self, local))
        self.delivery = Delivery(self.schedule, self.store, self.outlet)
        self.progress = DelayOffsets(self.schedule, version_step=1)
        self.save_at = self.copy_at = host.now
        self.store.arrivals = self._arrived
        load_table(host.disk, self.progress)
        self.delivery.clamp()

    # Time ---------------------------------------------------------------------------------------

    def wake(self, now: int) -> int | None:
        super().wake(now)
        if now >= self.save_at:
            self.save_at = now + SAVE_MS
            self._save_progress()
        if now >= self.copy_at:
            self.copy_at = now + COPY_MS
            self._copy_progress()
        self._maybe_settled()
        if self.delivers(now):
            self.delivery.tick(self.host.wall)
            self.settle()
        return self.next_deadline()

    def next_deadline(self) -> int | None:
        due = super().next_deadline() or self.save_at
        due = min(due, self.save_at, self.copy_at)
        wall = self.delivery.next_deadline() if self.delivers(self.host.now) else None
        return due if wall is None else min(due, self.host.now + max(1, wall - self.host.wall))

    def delivers(self, now: int) -> bool:
        """A master under a lease whose log from before its time is confirmed."""
        return self.settle_at is None and self.may_acknowledge(now) and self.store.fenced is None

    def _maybe_settled(self) -> None:
        if self.settle_at is not None and self.store.pointers.confirmed >= self.settle_at:
            self.settle_at = None
            self.delivery.clamp()
            self.schedule.look_again()

    def _began(self, switch: BecomeMaster, done: Callable[[Exception | None], None]) -> None:
        self.settle_at = self.store.pointers.appended
        super()._began(switch, done)

    def _arrived(self, arrivals: Arrivals) -> None:
        for topic, queue_id, _ in arrivals:
            if topic == SCHEDULE_TOPIC:
                self.delivery.arrived(queue_id, self.host.wall)

    def _kept(self, end: int, done: Callable[[bool], None]) -> None:
        node, now = self.node, self.host.now
        if node is None:
            done(False)
            return
        node.appended(now)
        until = now + self.history.ack_timeout_ms
        node.when_acked(end, until, lambda status: done(status is AckStatus.ACKED), now)

    # Progress -----------------------------------------------------------------------------------

    def _save_progress(self) -> None:
        if not self.progress.dirty or self.store.fenced is not None:
            return
        self.progress.step_version(self.host.wall)
        data, self.progress.dirty = self.progress.encode(), False

        def write(ok: bool) -> None:
            try:
                if ok:
                    self.host.disk.write_file(self.progress.file, data, backup=True)
            except EnvironmentFault:
                self.progress.dirty = True

        self.store.when_synced(self.store.pointers.appended, write)

    def _copy_progress(self) -> None:
        """A follower takes the master's progress."""
        view = self.membership.view
        if self.node is None or self.node.follower is None or not view.master_address:
            return
        epoch = view.epoch

        def answered(answer: Command) -> None:
            node = self.node
            if answer.code == 0 and node is not None and node.follower is not None:
                if self.membership.view.epoch == epoch:
                    self.progress.load(json_tolerant.loads(bytes(answer.body)))
                    self.progress.dirty = True

        name = self.cluster.host_at(view.master_address)
        command = request(RequestCode.GET_ALL_DELAY_OFFSET, {})
        self.rpc.call(name, command, 200 * MS, answered, lambda _lost: None)

    # Requests -----------------------------------------------------------------------------------

    def request(self, command: Command, session: Session) -> None:
        if command.code == RequestCode.GET_ALL_DELAY_OFFSET:
            body = msgspec.json.encode(self.progress.content())
            session.answer(command, Reply(0, None, None, body))
            return
        super().request(command, session)

    def draft(self, command: Command, number: int) -> Draft:
        draft = super().draft(command, number)
        level = int((command.ext or {}).get("level", "0"))
        if not level:
            return draft
        properties = draft.properties + f"DELAY\x01{level}\x02".encode()
        draft = msgspec.structs.replace(draft, properties=properties)
        self.world.tell("delayed", self, number, self.schedule.delay_ms(level))
        return delay(draft, level)


class Watched:
    """The local route; checkers hear what goes through it, and what became of it."""

    def __init__(self, broker: SecondaryBroker, route: Local) -> None:
        self._broker = broker
        self._route = route

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
        broker = self._broker
        broker.world.tell("moves_on", broker, drafts)

        def settled(outcomes: Sequence[Outcome]) -> None:
            broker.world.tell("moved_on", broker, drafts, outcomes)
            done(outcomes)

        self._route.put(drafts, origin, wall, settled)
