"""A world for strict queue locks in a group without controllers, whose name servers disagree.

It has one master, one to four slaves of which one becomes acting master, one to three name servers,
and ordered consumers. Timeouts are the product's own; the random faults last longer than locks.
Checks INV-31, INV-34 for acting masters, and INV-35 for locks: after the heal, locks are granted.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

from epochmq.nameserver.options import NamesrvOptions
from sim.kernel.clocks import HostClock
from sim.kernel.faults import Fault, Injector, Swarm
from sim.kernel.host import Host, Process
from sim.kernel.net import Net, Weather
from sim.kernel.plan import Plan
from sim.kernel.violation import Violation
from sim.kernel.world import MS, SECOND, World
from sim.locks.inv_31 import OneHolder
from sim.locks.inv_34_acting import OneActing
from sim.locks.lock_brokers import LockBroker, queue_of
from sim.locks.lock_clients import LockClient
from sim.locks.lock_servers import NameServerProcess

KINDS = {
    "kill": 4,
    "power": 3,
    "power_at_write": 4,
    "kill_group": 1,
    "power_group": 1,
    "kill_master": 6,
    "cut_master_off": 4,
    "pause_master": 3,
    "part_servers": 6,
    "pause": 3,
    "cut": 2,
    "cut_one_way": 2,
    "split": 3,
    "isolate": 3,
    "bridge": 2,
    "reset": 2,
    "slow_link": 3,
    "lossy": 2,
    "doubling": 2,
    "clock_step": 1,
    "full_disk": 1,
    "sync_error": 1,
}
DRIFT_PPM_MAX = 29_000
"""Two clocks differ by less than the 6 % by which votes outlast beliefs (ADR 0052)."""
NOT_ACTIVE_MS = 10_000
TOGETHER_MS = 14_000
"""An acting master that is cut off stops after `NOT_ACTIVE_MS`, plus clock drift, polls and
network.
"""
LIVENESS_US = 180 * SECOND
CALM_US = 40 * MS
"""The slowest network after the heal: four messages must fit into a client's timeout of one
second.
"""
PORT = 10911


class LockInjector(Injector):
    """Adds faults for a group without controllers."""

    def __init__(self, history: "LocksHistory") -> None:
        super().__init__(history.world, history.net)
        self._history = history

    def _kill_master(self, fault: Fault) -> Callable[[], None]:
        return self._kill(replace(fault, hosts=self._history.broker_names[:1]))

    def _pause_master(self, fault: Fault) -> Callable[[], None]:
        return self._pause(replace(fault, hosts=self._history.broker_names[:1]))

    def _cut_master_off(self, fault: Fault) -> Callable[[], None]:
        """Cut the master off from name servers, and maybe from slaves; clients still reach it."""
        brokers = self._history.broker_names
        others = [*self._history.server_names, *brokers[1 : 1 + fault.size % 3]]
        ways = [(brokers[0], other) for other in others]
        return self._cut_ways([*ways, *((b, a) for a, b in ways)])

    def _part_servers(self, fault: Fault) -> Callable[[], None]:
        """Cut each name server off from its own random set of brokers."""
        chance = Random(f"{self.world.seed}:{fault.number}")
        ways = [
            (server, broker)
            for server in self._history.server_names
            for broker in self._history.broker_names
            if chance.randrange(100) < fault.size
        ]
        return self._cut_ways([*ways, *((b, a) for a, b in ways)])


class LocksHistory:
    """A few minutes of one group."""

    def __init__(self, plan: Plan) -> None:
        sizes = Random(f"{plan.seed}:sizes")
        self.safe = plan.safeguards
        self.world = World(plan.seed)
        self.net = Net(self.world, Weather(delay_max_us=sizes.choice((1, 5, 40, 400)) * MS))
        self.replicas = sizes.choice((2, 3, 3, 3, 3, 5))
        self.queues = sizes.choice((1, 2, 4))
        self.compat = sizes.randrange(3) == 0
        self.not_active_ms = NOT_ACTIVE_MS
        self.pace_ms = sizes.choice((1_500, 4_000, 8_000))
        self.unlock_percent = sizes.choice((2, 10, 40))
        self.server_options = NamesrvOptions(
            support_acting_master=True,
            notify_min_broker_id_changed=sizes.randrange(2) == 0,
        )
        self.safety_us = sizes.choice((60, 90, 120)) * SECOND
        self._addresses: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self.broker_names = self._add(
            "b", self.replicas, lambda number: lambda host: LockBroker(self, host, number)
        )
        servers = sizes.choice((1, 2, 3, 3))
        self.server_names = self._add("n", servers, lambda _n: partial(NameServerProcess, self))
        self.client_names = self._add(
            "k", sizes.choice((2, 3, 4)), lambda _n: partial(LockClient, self)
        )
        self.injector = LockInjector(self)
        self.faults = self._draw(plan)
        self.world.check_with([OneHolder(), OneActing(TOGETHER_MS)])

    def _add(
        self, letter: str, count: int, boot: Callable[[int], Callable[[Host], Process]]
    ) -> tuple[str, ...]:
        clocks = self.world.streams["clocks"]
        names = tuple(f"{letter}{number}" for number in range(count))
        for number, name in enumerate(names):
            host = self.world.add_host(name, boot(number))
            drift = clocks.choice((-DRIFT_PPM_MAX, 0, DRIFT_PPM_MAX, clocks.randint(-2000, 2000)))
            host.clock = HostClock(
                drift, clocks.randint(-3_600_000, 3_600_000), clocks.randint(1, 1_000_000)
            )
            address = f"10.0.0.{len(self._names) + 1}:{PORT}"
            self._addresses[name], self._names[address] = address, name
        return names

    def _draw(self, plan: Plan) -> list[Fault]:
        hosts = (*self.broker_names, *self.server_names, *self.client_names)
        swarm = Swarm(
            KINDS,
            hosts,
            5 * SECOND,
            self.safety_us,
            12,
            90 * SECOND,
            (self.broker_names, self.server_names),
        )
        drawn = swarm.draw(self.world.streams["faults"])
        return [fault for fault in drawn if plan.keep is None or fault.number in plan.keep]

    def address_of(self, name: str) -> str:
        return self._addresses[name]

    def host_at(self, address: str) -> str:
        return self._names[address]

    def schedule(self) -> list[str]:
        return [str(fault) for fault in self.faults]

    # Course of a history ------------------------------------------------------------------------

    def play(self) -> None:
        world = self.world
        chance = world.streams["start"]
        for host in world.hosts.values():
            delay = chance.randrange(3 * SECOND)
            world.at(delay, f"start {host.name}", partial(world.start, host))
        self.injector.schedule(self.faults)
        world.run_until(self.safety_us)
        self.injector.heal()
        self.net.weather.delay_max_us = min(self.net.weather.delay_max_us, CALM_US)
        healed_us = world.time_us
        if not world.run_until(healed_us + LIVENESS_US, partial(self.is_well, healed_us)):
            raise Violation("INV-35", "long after the heal a queue has no holder, or no master")
        world.finish()

    def is_well(self, healed_us: int) -> bool:
        """Return whether only the master serves, all clients know it, and all queues were locked
        since.
        """
        hosts = self.world.hosts
        if self.world.touched is None or self.world.touched.name not in self.client_names:
            return False
        if self.world.time_us < healed_us + SECOND:
            return False
        brokers = [hosts[name].process for name in self.broker_names]
        roles = [b.role.name for b in brokers if isinstance(b, LockBroker)]
        if roles != ["MASTER"] + ["SLAVE"] * (self.replicas - 1):
            return False
        clients = [hosts[name].process for name in self.client_names]
        living = [client for client in clients if isinstance(client, LockClient)]
        if any(client.master != self.broker_names[0] for client in living):
            return False
        return all(self._is_held(living, number) for number in range(self.queues))

    @staticmethod
    def _is_held(clients: list[LockClient], number: int) -> bool:
        queue = queue_of(number)
        return any(client.holds(queue, client.host.now) for client in clients)


def history(plan: Plan) -> LocksHistory:
    return LocksHistory(plan)
