"""Some seconds of one group whose clients also send delayed messages."""

from dataclasses import replace
from random import Random

from epochmq.broker.schedule.core import RETRY_MAX_MS
from sim.checkers.base import Checker
from sim.checkers.inv_27 import Delayed
from sim.clients import Client
from sim.clocks import HostClock
from sim.cluster import DRIFT_PPM_MAX
from sim.faults import Fault
from sim.group_world import GroupHistory
from sim.host import Host
from sim.plan import Plan
from sim.secondary import SecondaryBroker
from sim.violation import Violation
from sim.world import MS, SECOND

APART_MS = 5
"""Wall clocks of two brokers start no further apart; nobody sets them (the cores' own tests do)."""
WHOLE_US = 60 * SECOND
"""Longer than any history; clocks that drift are apart by so much of it."""


class SecondaryHistory(GroupHistory):
    """Delayed messages under the faults of a group."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        clocks = Random(f"{plan.seed}:wall")
        for name in self.cluster.broker_names:
            self.world.hosts[name].clock = HostClock(
                clocks.randint(-DRIFT_PPM_MAX, DRIFT_PPM_MAX),
                clocks.randint(-APART_MS, APART_MS),
                clocks.randint(1, 1_000_000),
            )

    def draw_sizes(self, sizes: Random) -> None:
        super().draw_sizes(sizes)
        self.delays_ms = sizes.choice(((50, 200, 1000), (10, 500), (100, 100, 300, 2000)))
        self.store_options = replace(self.store_options, delays_ms=self.delays_ms)

    def draw_faults(self, sizes: Random) -> list[Fault]:
        return [fault for fault in super().draw_faults(sizes) if fault.kind != "clock_step"]

    def checkers(self) -> list[Checker]:
        skew_us = 2 * APART_MS * MS + WHOLE_US * 2 * DRIFT_PPM_MAX // 1_000_000
        self.delayed = Delayed(self.oracle, len(self.delays_ms), skew_us)
        return [*super().checkers(), self.delayed]

    def make_broker(self, host: Host) -> SecondaryBroker:
        return SecondaryBroker(self, host)

    def make_client(self, host: Host) -> "SecondaryClient":
        return SecondaryClient(self, host)

    def be_well(self) -> None:
        """As of a group; besides, what is due comes out, a retry's longest pause later at most."""
        super().be_well()
        patience_us = (max(self.delays_ms) + RETRY_MAX_MS + 2000) * MS
        world = self.world
        if not world.run_until(world.time_us + patience_us, lambda: not self.delayed.waiting):
            text = f"delayed messages do not come out: {sorted(self.delayed.waiting)[:20]}"
            raise Violation("INV-27", text)
        if not world.run_until(world.time_us + 5 * SECOND, self.is_even):
            raise Violation("INV-35", "the replicas do not come to one confirmed end")


class SecondaryClient(Client):
    """Half of what it sends is delayed."""

    history: SecondaryHistory

    def wishes(self) -> dict[str, str]:
        level = self.chance.randrange(2 * len(self.history.delays_ms)) + 1
        return {"level": str(level)} if level <= len(self.history.delays_ms) else {}

    def acked(self, number: int, ext: dict[str, str], name: str) -> None:
        if number in self.history.delayed.due:
            self.world.mark("covered.delayed")
            self.history.oracle.held(number, int(ext["epoch"]), name, self.world.time_us)
            return
        super().acked(number, ext, name)


def history(plan: Plan) -> SecondaryHistory:
    return SecondaryHistory(plan)
