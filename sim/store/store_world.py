"""A world of one store: appends, syncs, reads, ticks, crashes at any operation, and recovery.

Checks INV-11, INV-16, INV-17, INV-20 (by flush policy), INV-21, INV-22, INV-24 for one broker.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from epochmq.base.errors import StoreDamaged
from epochmq.store.draft import Appended, Draft
from epochmq.store.options import StoreOptions
from epochmq.store.store import Store
from sim.kernel.checker import Checker
from sim.kernel.disk import PowerCut, SimDisk
from sim.kernel.faults import Fault, Injector, Swarm
from sim.kernel.host import Host
from sim.kernel.net import Net
from sim.kernel.oracle import Delivery, Oracle
from sim.kernel.plan import Plan
from sim.kernel.violation import Violation
from sim.kernel.workload import (
    HOST,
    QUEUES,
    TOPICS,
    draft,
    number_of,
    offset_of,
    queue_offset_of,
    read_all,
    records,
)
from sim.kernel.world import MS, SECOND, World
from sim.store.inv_11 import PointerOrder
from sim.store.inv_16 import Recovers
from sim.store.inv_17 import Derived
from sim.store.store_shell import StoreShell

KINDS = {
    "kill": 4,
    "power": 4,
    "power_at_write": 8,
    "pause": 1,
    "clock_step": 2,
    "slow_disk": 1,
    "full_disk": 2,
    "sync_error": 1,
    "clean_restart": 2,
}
SAFETY_US = 3 * SECOND


def small_options(chance: Random) -> StoreOptions:
    """Return options with files so small that rolls, truncation and rebuilds are frequent."""
    policy = chance.randrange(4)
    return StoreOptions(
        commit_log_file_bytes=4096 << chance.randrange(5),
        consume_queue_file_bytes=20 * chance.choice((10, 40, 200)),
        index=chance.randrange(4) > 0,
        index_slots=16,
        index_items=32,
        preallocate=chance.randrange(3) > 0,
        sync_flush=policy < 2,
        transient_pool=policy == 2,
        zero_fill=chance.randrange(4) == 0,
        flush_interval_ms=100,
        flush_least_pages=chance.choice((0, 1)),
        flush_thorough_interval_ms=500,
        commit_interval_ms=50,
        queue_write_interval_ms=chance.choice((20, 200)),
        queue_sync_interval_ms=chance.choice((100, 1000)),
        index_sync_interval_ms=150,
        checkpoint_interval_ms=chance.choice((30, 300)),
        disk_check_interval_ms=20,
        disk_used_ratio=1.0,
        disk_warning_ratio=1.0,
        disk_forcibly_ratio=1.0,
    )


class Alone:
    """A process with one store and a client that uses it."""

    def __init__(self, history: "StoreHistory", host: Host) -> None:
        self.history = history
        self.host = host
        self.store = Store.open(
            host.disk, history.options, HOST, host.wall, boot=f"{host.name} {host.power_cuts}"
        )
        self.shell = StoreShell(host, self.store, history.sync_us)
        self.cursors = dict.fromkeys([(t, q) for t in TOPICS for q in range(QUEUES)], 0)
        host.world.tell("recovered", host, self.store)

    def wake(self, now: int) -> int | None:
        self.shell.wake(now)
        return self.next_deadline()

    def next_deadline(self) -> int | None:
        return self.shell.next_deadline

    def state_line(self) -> str:
        return f"{self.store.pointers} fenced={self.store.fenced}"

    def append(self, drafts: list[Draft], numbers: list[int]) -> None:
        """Append messages; acknowledge them by the flush policy."""
        oracle, world = self.history.oracle, self.host.world
        for number, one in zip(numbers, drafts, strict=True):
            oracle.call(number, "c", (one.topic, one.queue_id), world.time_us)
        for number, place in zip(numbers, self.store.append(drafts, self.host.wall), strict=True):
            if not isinstance(place, Appended):
                oracle.fail(number, world.time_us)
            elif self.store.options.sync_flush:
                self.store.when_synced(place.offset + place.size, self.waiter(number, place))
            else:
                self.ok(number, place)
        self.shell.pump()

    def waiter(self, number: int, place: Appended) -> Callable[[bool], None]:
        return lambda synced: self.ok(number, place) if synced else None

    def ok(self, number: int, place: Appended) -> None:
        where = (place.queue_offset, place.offset)
        self.history.oracle.ok(number, where, 0, self.host.name, self.host.world.time_us)

    def read(self, topic: str, queue_id: int) -> None:
        """Continue reading a queue; a new process reads from the beginning."""
        at = self.cursors[topic, queue_id]
        result = self.store.read_queue(topic, queue_id, at, 16, 1 << 16)
        for record in records(result.chunks):
            if queue_offset_of(record) != at:
                raise Violation("INV-24", f"{topic}/{queue_id}: gap", (self.host.name,), (at,))
            self.history.oracle.delivered(delivery(record, topic, queue_id, self.host))
            at += 1
        self.cursors[topic, queue_id] = at


def delivery(record: memoryview, topic: str, queue_id: int, host: Host) -> Delivery:
    return Delivery(
        number_of(record),
        "r",
        (topic, queue_id),
        queue_offset_of(record),
        host.world.time_us,
        host.name,
        offset_of(record),
    )


class Promised(Checker):
    """Remembers how far the log was synced and written before the event that ended it."""

    synced = 0
    written = 0

    def observe(self, world: World) -> None:
        process = world.hosts["store"].process
        if isinstance(process, Alone):
            self.synced = process.store.pointers.synced
            self.written = process.store._log.committed


class StoreInjector(Injector):
    """Adds a fault of stores: a clean stop."""

    def _clean_restart(self, fault: Fault) -> None:
        for host in self._hosts(fault):
            process = host.process
            if isinstance(process, Alone) and not host.paused and not process.shell.busy:
                try:
                    process.store.close(host.wall)
                except PowerCut:  # at a write that another fault chose
                    self.world.power_off(host)
                else:
                    self.world.kill(host)
                self.world.start(host)


class StoreHistory:
    """A few seconds of one store."""

    def __init__(self, plan: Plan) -> None:
        self.world = World(plan.seed)
        streams = self.world.streams
        self.chance = streams["workload"]
        self.options = replace(
            small_options(streams["swarm"]), check_crc_on_recover=plan.safeguards.crc_on_scan
        )
        self.sync_us = streams["swarm"].choice((100, 1000, 8000))
        self.burst = streams["swarm"].choice((1, 3, 8))
        self.pace_us = streams["swarm"].choice((2, 8, 30)) * MS
        self.world.warm_after_failed_sync = streams["warm"].randrange(2) == 0
        self.oracle = Oracle()
        self.host = self.world.add_host("store", lambda host: Alone(self, host))
        if streams["mounts"].randrange(4) == 0:
            self.host.disk = SimDisk(mounted=("commitlog",))
        self.promised = Promised()
        self.world.on_down.append(self.went_down)
        self.injector = StoreInjector(self.world, Net(self.world))
        swarm = Swarm(KINDS, ("store",), 50 * MS, SAFETY_US, count_max=8, span_max_us=SECOND // 2)
        drawn = swarm.draw(streams["faults"])
        self.faults = [f for f in drawn if plan.keep is None or f.number in plan.keep]
        self.world.check_with([self.promised, PointerOrder(), Recovers(), Derived()])

    def schedule(self) -> list[str]:
        return [str(fault) for fault in self.faults]

    def went_down(self, _host: Host, power: bool) -> None:
        """Without sync flush, allow the loss of messages that were not synced at a power cut."""
        if power and not self.options.sync_flush:
            self.oracle.excuse(self.promised.synced)
        elif not power and self.options.transient_pool:
            self.oracle.excuse(self.promised.written)

    def play(self) -> None:
        world = self.world
        try:
            world.start(self.host)
            self.injector.schedule(self.faults)
            self.step()
            world.run_until(SAFETY_US + SECOND // 2)
            self.injector.heal()
            world.run_until(world.time_us + 2 * SECOND)
        except StoreDamaged as error:
            raise Violation("INV-16", f"the store does not open: {error}") from error
        self.drain()
        world.finish()

    def step(self) -> None:
        """Do one random action of a client, and schedule the next."""
        chance, world = self.chance, self.world
        if world.time_us < SAFETY_US:
            pause = 1 + int(chance.expovariate(1 / self.pace_us))
            world.after(pause, "next", self.step)
        what = chance.randrange(10)
        number = len(self.oracle.sends)
        drafts = [draft(number + i, chance) for i in range(chance.randint(1, self.burst))]
        topic, queue_id = TOPICS[chance.randrange(len(TOPICS))], chance.randrange(QUEUES)
        process = self.host.process
        if not isinstance(process, Alone) or self.host.paused:
            return
        if what < 6:
            numbers = list(range(number, number + len(drafts)))
            call = lambda: process.append(drafts, numbers)  # noqa: E731
        else:
            call = lambda: process.read(topic, queue_id)  # noqa: E731
        world.after(0, "append" if what < 6 else "read", call, self.host)

    def drain(self) -> None:
        """Check that all promised messages are there, and that a send succeeds."""
        process = self.host.process
        assert isinstance(process, Alone)
        if process.store.fenced is not None:
            self.world.power_off(self.host)
            self.world.start(self.host)
            process = self.host.process
            assert isinstance(process, Alone)
        number = len(self.oracle.sends)
        process.append([draft(number, self.chance)], [number])
        self.world.run_until(self.world.time_us + SECOND)
        if not any(send.number == number for send in self.oracle.acked):
            raise Violation("INV-35", "no send succeeds after the heal", ("store",))
        for topic in TOPICS:
            for queue_id in range(QUEUES):
                numbers = [number_of(r) for r in read_all(process.store, topic, queue_id)]
                self.oracle.judge_drain((topic, queue_id), numbers, "store")


def history(plan: Plan) -> StoreHistory:
    return StoreHistory(plan)
