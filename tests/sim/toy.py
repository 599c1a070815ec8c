"""A toy world: hosts that count each other's pings and keep the count on disk."""

from sim.kernel.checker import Checker
from sim.kernel.faults import Injector, Swarm
from sim.kernel.host import Host
from sim.kernel.net import Net
from sim.kernel.plan import Plan
from sim.kernel.violation import Violation
from sim.kernel.world import MS, SECOND, World


class Counter:
    """Pings a neighbour every 50 ms; saves what it heard."""

    def __init__(self, toy: "Toy", host: Host) -> None:
        self.toy = toy
        self.host = host
        self.count = int(host.disk.read_file("count") or b"0")
        self.next_ms = host.now

    def wake(self, now: int) -> int | None:
        if now >= self.next_ms:
            self.next_ms = now + 50
            for other in self.toy.world.hosts.values():
                if other is not self.host:
                    self.toy.net.send(self.host, other, "ping", lambda o=other: hear(o))
        return self.next_ms

    def state_line(self) -> str:
        return f"count {self.count}"

    def heard(self) -> None:
        self.count += 1
        if self.toy.save:
            self.host.disk.write_file("count", str(self.count).encode())
        self.toy.world.tell("counted", self.host.name, self.count)


def hear(host: Host) -> None:
    assert isinstance(host.process, Counter)
    host.process.heard()


class NeverBack(Checker):
    """A count never goes back."""

    rule = "TOY-1"

    def __init__(self) -> None:
        self.highest: dict[str, int] = {}

    def counted(self, name: str, count: int) -> None:
        if count <= self.highest.get(name, 0):
            raise Violation(self.rule, "the count went back", (name,), (count,))
        self.highest[name] = count


KINDS = {
    "kill": 3,
    "power": 3,
    "pause": 2,
    "cut": 2,
    "cut_one_way": 1,
    "split": 2,
    "isolate": 2,
    "bridge": 1,
    "slow_link": 1,
    "lossy": 1,
    "doubling": 1,
    "clock_step": 1,
    "slow_disk": 1,
    "kill_group": 1,
    "power_group": 1,
}


class Toy:
    """Three such hosts under drawn faults; with `off` it forgets to save."""

    def __init__(self, plan: Plan) -> None:
        self.save = not plan.off
        self.world = World(plan.seed)
        self.net = Net(self.world)
        for name in ("a", "b", "c"):
            self.world.add_host(name, lambda host: Counter(self, host))
        self.injector = Injector(self.world, self.net)
        swarm = Swarm(KINDS, ("a", "b", "c"), SECOND, 5 * SECOND, groups=(("a", "b"),))
        drawn = swarm.draw(self.world.streams["faults"])
        self.faults = [f for f in drawn if plan.keep is None or f.number in plan.keep]
        self.world.check_with([NeverBack()])

    def play(self) -> None:
        for host in self.world.hosts.values():
            self.world.start(host)
        self.injector.schedule(self.faults)
        self.world.run_until(6 * SECOND)
        self.injector.heal()
        self.world.run_until(7 * SECOND + 10 * MS)
        self.world.finish()

    def schedule(self) -> list[str]:
        return [str(fault) for fault in self.faults]
