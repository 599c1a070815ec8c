"""The world `secondary`: a group whose clients also send delayed messages, and pop.

Messages are delayed by a level or for an exact time, rescheduled and cancelled; transactions are
committed, rolled back or left open; POP acknowledgements come in time, late or never. In addition
to the faults of a group, wall clocks are changed, and links stall while everything else continues.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from types import ModuleType

from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.delay import delay_schedule as schedule
from epochmq.broker.delay import timed_messages as timer
from epochmq.broker.pop import pop_buffer as pop_buffer
from epochmq.broker.pop import revive as revive
from epochmq.broker.transaction import ending
from epochmq.broker.transaction import open_transactions as transaction
from epochmq.client.core.pop_state import NORMAL, RETRY_V1, RETRY_V2, retry_topic_of
from sim.controller.cluster import DRIFT_PPM_MAX
from sim.controller.member import CLUSTER, GROUP
from sim.group.clients import Client
from sim.group.group_world import KINDS, GroupHistory, GroupInjector
from sim.kernel.checker import Checker
from sim.kernel.clocks import HostClock
from sim.kernel.faults import Fault
from sim.kernel.host import Host
from sim.kernel.mutants import MUTANTS
from sim.kernel.plan import Plan
from sim.kernel.replaced import replaced
from sim.kernel.violation import Violation
from sim.kernel.workload import QUEUES, TOPICS
from sim.kernel.world import MS, SECOND
from sim.secondary.inv_26 import Transactions
from sim.secondary.inv_27 import Delayed
from sim.secondary.inv_28 import Popped
from sim.secondary.secondary_broker import SecondaryBroker
from sim.secondary.secondary_clients import CONSUMERS, SecondaryClient

APART_MS = 5
"""The most (ms) by which the wall clocks of two brokers differ at the start and after the heal."""
WHOLE_US = 120 * SECOND
"""Longer than any history; used to convert a difference of clocks to a drift."""
FAR_MS = 4_000_000
"""More than the time by which any clock is set forward."""
LOOK_US = 50 * MS
STEP_MS = 20
KINDS_HERE = {**KINDS, "clock_step": 5, "clog_master": 6}
MIXES = (
    ("plain", "level", "timer", "half"),
    ("plain", "level"),
    ("plain", "timer", "timer"),
    ("plain", "half", "half"),
    ("plain", "plain", "timer", "half"),
)
BRISK: tuple[tuple[ModuleType, str, int], ...] = (
    (schedule, "RETRY_MS", 100),
    (schedule, "RETRY_MAX_MS", 1_000),
    (timer, "RETRY_MAX_MS", 1_000),
    (transaction, "RETRY_MS", 100),
    (ending, "HELD_MS", 500),
    (pop_buffer, "RETRY_MS", 100),
    (revive, "RETRY_MS", 100),
    (revive, "RETRY_MAX_MS", 1_000),
    (revive, "COPY_LEFT_MS", 50),
    (revive, "BACK_OFF_S", (1,)),
)
"""Pauses of the product that are longer than a history."""


class SecondaryInjector(GroupInjector):
    """Adds clock steps, and a master whose followers get no log for a while."""

    history: "SecondaryHistory"

    def _clock_step(self, fault: Fault) -> None:
        """Set clocks mostly by less than a second or two, sometimes by up to an hour."""
        for host in self._hosts(fault):
            step = fault.size**2 * 360 if fault.size % 5 == 0 else fault.size * STEP_MS
            host.clock.step_wall(step if fault.size % 2 else -step)

    def _clog_master(self, fault: Fault) -> Callable[[], None] | None:
        """Stall the master's links to its followers; mostly it dies in this state."""
        name = self._master()
        if name is None:
            return None
        self.history.clogged.add(name)
        host = self.world.hosts[name]
        ended: list[bool] = []

        def die() -> None:
            if not ended:
                self.world.kill(host)

        def undo() -> None:
            ended.append(True)
            self.history.clogged.discard(name)
            self.world.start(host)

        if fault.size % 4:
            self.world.after(fault.size * 4 * MS, f"kill {name}", die)
        return undo


class SecondaryHistory(GroupHistory):
    """A history with messages that are moved on later, under the faults of a group."""

    kinds = KINDS_HERE
    injects = SecondaryInjector
    copy_behind: int

    def __init__(self, plan: Plan) -> None:
        self.clogged: set[str] = set()
        self.draining = False
        super().__init__(plan)
        assert isinstance(self.injector, SecondaryInjector)
        self.injector.history = self
        clocks = Random(f"{plan.seed}:wall")
        for name in self.cluster.broker_names:
            self.world.hosts[name].clock = HostClock(
                clocks.randint(-DRIFT_PPM_MAX, DRIFT_PPM_MAX),
                clocks.randint(-APART_MS, APART_MS),
                clocks.randint(1, 1_000_000),
            )
        hosts = self.world.hosts
        self.right = {n: hosts[n].clock.wall_at_start_ms for n in self.cluster.broker_names}

    def draw_sizes(self, sizes: Random) -> None:
        super().draw_sizes(sizes)
        self.sends_max = sizes.choice((80, 150, 300))
        self.pace_us = self.safety_us * (1 + self.burst_max) // (2 * self.sends_max)
        self.delays_ms = sizes.choice(((50, 200, 1000), (10, 500), (100, 100, 300, 2000)))
        self.timers_ms = sizes.choice(((50, 500, 1500), (200, 3000), (20, 100, 400)))
        self.invisible_ms = sizes.choice(((200, 800), (100, 400, 2000), (500,)))
        self.store_options = replace(self.store_options, delays_ms=self.delays_ms)
        self.mix = sizes.choice(MIXES)
        self.pops = sizes.randrange(4) > 0
        self.copy_behind = sizes.choice((4, 12, 20_000))
        self.beat_us = sizes.choice((100, 400)) * MS
        self.options = self.draw_options(sizes)

    def draw_options(self, sizes: Random) -> BrokerOptions:
        return BrokerOptions(
            broker_name=GROUP,
            broker_cluster_name=CLUSTER,
            broker_ip1="127.0.0.1",
            broker_ip2="127.0.0.1",
            enable_controller_mode=True,
            flush_disk_type="SYNC_FLUSH" if self.sync_flush else "ASYNC_FLUSH",
            slave_timeout=self.ack_timeout_ms,
            message_index_enable=self.store_options.index,
            slave_metadata_period=sizes.choice((50, 100, 300)),
            transaction_time_out=sizes.choice((100, 400)),
            transaction_check_interval=sizes.choice((150, 300)),
            transaction_check_max=sizes.choice((2, 4)),
            transaction_op_msg_max_size=sizes.choice((64, 4096)),
            transaction_op_batch_interval=sizes.choice((0, 50, 500)),
            timer_precision_ms=sizes.choice((100, 200, 500)),
            timer_roll_window_slot=sizes.choice((4, 10, 100)),
            mapped_file_size_timer_log=sizes.choice((520, 1000, 100_000)),
            revive_queue_num=sizes.choice((1, 2)),
            enable_retry_topic_v2=sizes.randrange(2) > 0,
            enable_pop_buffer_merge=sizes.randrange(3) == 0,
            pop_ck_stay_buffer_time=sizes.choice((50, 300)),
            pop_ck_stay_buffer_time_out=sizes.choice((20, 150)),
        )

    def checkers(self) -> list[Checker]:
        skew_us = 2 * APART_MS * MS + WHOLE_US * 2 * DRIFT_PPM_MAX // 1_000_000
        steps = any(fault.kind == "clock_step" for fault in self.faults)
        self.delayed = Delayed(self.oracle, None if steps else skew_us)
        self.transactions = Transactions(self.oracle)
        self.popped = Popped(CONSUMERS, buffers=self.options.enable_pop_buffer_merge)
        mine = [self.delayed, self.transactions, *([self.popped] if self.pops else [])]
        return [*super().checkers(), *mine]

    def make_broker(self, host: Host) -> SecondaryBroker:
        return SecondaryBroker(self, host)

    def make_client(self, host: Host) -> Client:
        return SecondaryClient(self, host)

    def alter(self, broker: SecondaryBroker) -> None:
        """Apply the mutants of the plan to a new process."""
        for name in self.plan.off:
            if name in MUTANTS:
                MUTANTS[name](broker)

    # Course of a history --------------------------------------------------------------------------

    def play(self) -> None:
        with replaced([*BRISK, (revive, "COPY_BEHIND", self.copy_behind)]):
            super().play()

    def consume(self, host: Host) -> None:
        super().consume(host)
        chance, world = self.world.streams["pops"], self.world

        def act() -> None:
            if isinstance(host.process, SecondaryClient) and self.pops:
                host.process.pop()

        if self.busy():
            world.after(chance.randrange(20) * MS, "pop", act, host)

    def be_well(self) -> None:
        """Check the group; in addition all waiting messages are delivered and consumed."""
        self.clogged.clear()
        self.set_clocks()
        super().be_well()
        self.calm_begins()
        self.drain_pops()
        self.wait(self.is_calm, "INV-27", self.text)
        if self.delayed.waiting:
            self.all_is_due()
        self.wait(lambda: not self.delayed.waiting and self.is_calm(), "INV-27", self.text)
        if not self.world.run_until(self.world.time_us + 5 * SECOND, self.is_even_and_calm):
            raise Violation("INV-35", "the replicas do not come to one confirmed end")

    def is_even_and_calm(self) -> bool:
        """Also wait for messages that become due unexpectedly and must be consumed."""
        return self.is_even() and self.is_calm()

    def set_clocks(self, ahead_ms: int = 0) -> None:
        """Set all wall clocks right, or `ahead_ms` ahead."""
        for name, right in self.right.items():
            host = self.world.hosts[name]
            clock = host.clock
            clock.step_wall(right + ahead_ms - clock.wall_at_start_ms)

    def calm_begins(self) -> None:
        for name in self.cluster.broker_names:
            self.delayed.calm[name] = self.world.hosts[name].wall

    def all_is_due(self) -> None:
        """Advance the clocks for messages that were stored while a clock was ahead."""
        self.world.mark("covered.far_timers")
        self.delayed.skew_us = None
        self.set_clocks(FAR_MS)
        self.calm_begins()

    def drain_pops(self) -> None:
        """Let consumers take all messages and acknowledge them at once."""
        self.draining = True
        world = self.world

        def act(host: Host) -> None:
            if isinstance(host.process, SecondaryClient):
                self.lead(host.process)
                host.process.pop()
            world.after(20 * MS, "drain", lambda: act(host), host)

        if self.pops:
            for host in self.clients:
                world.after(0, "drain", lambda host=host: act(host), host)  # type: ignore[misc]

    def lead(self, client: Client) -> None:
        """Tell a client the current master, if there is one."""
        masters = [b for b in self.brokers() if b.may_acknowledge(b.host.now)]
        if masters:
            client.target = self.cluster.broker_names.index(masters[0].host.name)

    def wait(self, done: Callable[[], bool], rule: str, text: Callable[[], str]) -> None:
        longest = max(*self.delays_ms, *self.timers_ms, *self.invisible_ms)
        until = self.world.time_us + (longest + 8_000) * MS
        while self.world.time_us < until:
            self.world.run_until(self.world.time_us + LOOK_US)
            if done():
                return
        raise Violation(rule, text())

    def text(self) -> str:
        return (
            f"what was held back does not come out: delayed {sorted(self.delayed.waiting)[:20]},"
            f" {[b.owned.transactions.statistics() for b in self.masters()]},"
            f" {[b.owned.pop.statistics() for b in self.masters()]}"
        )

    def masters(self) -> Iterator[SecondaryBroker]:
        for broker in self.brokers():
            if isinstance(broker, SecondaryBroker) and broker.owned.serving.delivers:
                yield broker

    def is_calm(self) -> bool:
        """Return whether nothing is due or open, and all messages are popped and acknowledged."""
        for broker in self.masters():
            owned = broker.owned
            wall = broker.host.wall
            soon = [n for n in self.delayed.waiting if self.delayed.is_soon(n, wall)]
            open_ = owned.transactions.statistics()["window"]
            if soon or open_ or not owned.transactions.ready:
                return False
            return not self.pops or self.all_popped(broker)
        return False

    def all_popped(self, broker: SecondaryBroker) -> bool:
        """Return whether no message is in flight and the group has consumed its queues to their
        ends.
        """
        owned = broker.owned
        pop = owned.pop
        if len(pop.driver) or len(pop.buffer) or pop.windows.statistics()["windows"]:
            return False
        marks = (NORMAL, RETRY_V1, RETRY_V2)
        for topic in [retry_topic_of(t, CONSUMERS, m) for t in TOPICS for m in marks]:
            for queue in range(QUEUES):
                _, high = owned.store.queue_bounds(topic, queue)
                if high > max(0, owned.offsets.get(CONSUMERS, topic, queue)):
                    return False
        return True


def history(plan: Plan) -> SecondaryHistory:
    return SecondaryHistory(plan)
