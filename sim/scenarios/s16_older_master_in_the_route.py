"""S16 (rocketmq#6316): the name server goes from the new master back to the old one.

Masters follow each other; who is deposed learns it late, and registrations overtake each other.
Expected: of two masters the one of the higher epoch is shown, whoever registers last (INV-34).
"""

from dataclasses import dataclass
from functools import partial

from epochmq.base.errors import Refused
from epochmq.model.data_version import DataVersion
from epochmq.nameserver.options import NamesrvOptions
from epochmq.nameserver.route_table import Registration, RouteTable
from sim.kernel.host import Host
from sim.kernel.net import Net
from sim.kernel.plan import Plan
from sim.kernel.world import MS, SECOND, World
from sim.locks.inv_34 import OneRoute

BROKERS = 3
MASTERS = 12


@dataclass
class NameServer:
    """A process with the product's route table."""

    host: Host
    routes: RouteTable

    def wake(self, now: int) -> int | None:
        return None

    def state_line(self) -> str:
        groups = self.routes.brokers.groups
        return str({name: dict(sorted(group.addrs.items())) for name, group in groups.items()})

    def register(self, address: str, broker_id: int, epoch: int) -> None:
        told = Registration(
            cluster="C",
            name="g",
            broker_id=broker_id,
            addr=address,
            version=DataVersion(epoch, 0, 1),
        )
        try:
            self.routes.register(told, self.host.now)
        except Refused:
            return
        self.host.world.tell("registered", self.host, address, broker_id, epoch, self.routes)


@dataclass
class Broker:
    """Says that it is master as long as it believes so."""

    history: "Story"
    host: Host
    number: int
    epoch: int = 0
    next_ms: int = 0

    def wake(self, now: int) -> int | None:
        if now >= self.next_ms:
            self.next_ms = now + 100
            self.say()
        return self.next_ms

    def state_line(self) -> str:
        return f"master of {self.epoch}" if self.epoch else "slave"

    def say(self) -> None:
        history, epoch = self.history, self.epoch
        address = f"10.0.0.{self.number}:10911"
        broker_id = 0 if epoch else self.number
        target = history.names

        def arrive() -> None:
            if isinstance(target.process, NameServer):
                target.process.register(address, broker_id, epoch or history.epoch)

        history.net.send(self.host, target, f"register {broker_id} {epoch}", arrive)


class Story:
    """Masters come and go; one name server listens."""

    def __init__(self, plan: Plan) -> None:
        self.world = world = World(plan.seed)
        self.net = Net(world)
        self.net.weather.delay_max_us = 300 * MS
        self.epoch = 0
        safe = plan.safeguards
        self.names = world.add_host(
            "n", lambda h: NameServer(h, RouteTable(NamesrvOptions(), safe))
        )
        self.brokers = [
            world.add_host(f"b{n}", lambda h, n=n: Broker(self, h, n))  # type: ignore[misc]
            for n in range(1, BROKERS + 1)
        ]
        world.check_with([OneRoute()])

    def schedule(self) -> list[str]:
        return []

    def play(self) -> None:
        world, chance = self.world, self.world.streams["story"]
        for host in (self.names, *self.brokers):
            world.start(host)
        for _ in range(MASTERS):
            self.elect(self.brokers[chance.randrange(BROKERS)], chance.randint(0, 500) * MS)
            world.run_until(world.time_us + chance.randint(20, 700) * MS)
        world.run_until(world.time_us + 2 * SECOND)
        world.mark("covered.S16")
        world.finish()

    def elect(self, new: Host, late_us: int) -> None:
        """`new` is master from now on; the old one hears of it later."""
        self.epoch += 1
        for host in self.brokers:
            broker = host.process
            assert isinstance(broker, Broker)
            if host is new:
                broker.epoch = self.epoch
                self.world.after(0, "elected", broker.say, host)
            elif broker.epoch:
                self.world.after(late_us, "deposed", partial(step_down, broker, self.epoch), host)


def step_down(broker: Broker, epoch: int) -> None:
    if broker.epoch < epoch:
        broker.epoch = 0
