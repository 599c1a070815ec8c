"""Faults as values: drawn from the seed before a history begins, and dropped to shrink it.

Swarm testing: each seed first draws which kinds of faults its history has, then a schedule of them.
The schedule has its own random stream, so that dropping a fault changes no other (rule 1).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from sim.kernel.host import Host
from sim.kernel.net import Net
from sim.kernel.world import MS, SECOND, World


@dataclass(frozen=True)
class Fault:
    """One fault: `kind` strikes `hosts` at `at_us` and ends after `span_us`."""

    number: int
    kind: str
    at_us: int
    span_us: int
    hosts: tuple[str, ...]
    size: int
    """Kind's own measure: permille, milliseconds, operations."""

    def __str__(self) -> str:
        return (
            f"{self.number}: {self.at_us / 1000:.1f} ms {self.kind} {'+'.join(self.hosts)}"
            f" for {self.span_us / 1000:.1f} ms, size {self.size}"
        )


@dataclass(frozen=True)
class Swarm:
    """What may be drawn: kinds with weights, hosts, how many, and when."""

    kinds: dict[str, int]
    hosts: tuple[str, ...]
    begin_us: int
    end_us: int
    count_max: int = 10
    span_max_us: int = 6 * SECOND
    groups: tuple[tuple[str, ...], ...] = ()
    """Hosts of one kind (controllers, brokers): some faults strike a whole group."""

    def draw(self, chance: Random) -> list[Fault]:
        """A schedule in order of time."""
        kinds = sorted(kind for kind in self.kinds if chance.randrange(2)) or ["kill"]
        weights = [self.kinds.get(kind, 1) for kind in kinds]
        count = chance.randint(0, self.count_max)
        found = [self._one(chance, chance.choices(kinds, weights)[0]) for _ in range(count)]
        found.sort(key=lambda fault: (fault.at_us, fault.kind, fault.hosts))
        return [
            Fault(number, f.kind, f.at_us, f.span_us, f.hosts, f.size)
            for number, f in enumerate(found)
        ]

    def _one(self, chance: Random, kind: str) -> Fault:
        at_us = chance.randrange(self.begin_us, self.end_us)
        span = int(self.span_max_us * chance.random() ** 2) + 5 * MS
        hosts = list(self.hosts)
        chance.shuffle(hosts)
        if kind in ("kill_group", "power_group") and self.groups:
            group = self.groups[chance.randrange(len(self.groups))]
            hosts = list(group)
        elif kind in PAIRS:
            hosts = hosts[:2]
        elif kind in WHOLE:
            hosts = hosts[: chance.randint(1, max(1, len(hosts) - 1))]
        else:
            hosts = hosts[:1]
        return Fault(0, kind, at_us, span, tuple(hosts), chance.randint(1, 100))


PAIRS = {"cut_one_way", "cut", "slow_link", "reset"}
WHOLE = {"split", "bridge", "isolate", "lossy", "doubling"}


def _each(call: Callable[[Host], None], hosts: Sequence[Host]) -> None:
    for host in hosts:
        call(host)


class Injector:
    """Carries faults out and ends them."""

    def __init__(self, world: World, net: Net) -> None:
        self.world = world
        self.net = net
        self._undo: dict[int, Callable[[], None]] = {}

    def schedule(self, faults: Sequence[Fault]) -> None:
        for fault in faults:
            self.world.at(fault.at_us, f"fault {fault.kind}", partial(self.strike, fault))

    def strike(self, fault: Fault) -> None:
        """Begin `fault`; it is taken back after its span."""
        self.world.mark(f"fault.{fault.kind}")
        undo = getattr(self, f"_{fault.kind}")(fault)
        if undo is not None:
            self._undo[fault.number] = undo
            label = f"end {fault.kind}"
            self.world.after(fault.span_us, label, lambda: self.take_back(fault.number))

    def take_back(self, number: int) -> None:
        undo = self._undo.pop(number, None)
        if undo is not None:
            undo()

    def heal(self) -> None:
        """End the phase with faults: remove all faults and start every host."""
        for number in sorted(self._undo):
            self.take_back(number)
        self.net.heal_all()
        self.net.weather.loss_permille = self.net.weather.double_permille = 0
        for _, host in sorted(self.world.hosts.items()):
            host.slow = 1
            host.disk.stop_at = None
            self.world.resume(host)
            self.world.start(host)

    def _hosts(self, fault: Fault) -> list[Host]:
        return [self.world.hosts[name] for name in fault.hosts if name in self.world.hosts]

    def _others(self, fault: Fault) -> list[str]:
        return [name for name in sorted(self.world.hosts) if name not in fault.hosts]

    # Processes --------------------------------------------------------------------------------

    def _restart(self, hosts: list[Host]) -> Callable[[], None]:
        return lambda: _each(self.world.start, hosts)

    def _kill(self, fault: Fault) -> Callable[[], None]:
        hosts = self._hosts(fault)
        _each(self.world.kill, hosts)
        return self._restart(hosts)

    def _power(self, fault: Fault) -> Callable[[], None]:
        hosts = self._hosts(fault)
        for host in hosts:
            if host.up:
                self.world.power_off(host)
        return self._restart(hosts)

    _kill_group = _kill
    _power_group = _power

    def _power_at_write(self, fault: Fault) -> Callable[[], None]:
        """The power goes right after one of the next operations of the disk."""
        hosts = self._hosts(fault)
        for host in hosts:
            host.disk.stop_at = host.disk.operations + fault.size

        def again() -> None:
            for host in hosts:
                host.disk.stop_at = None
                self.world.start(host)

        return again

    def _pause(self, fault: Fault) -> Callable[[], None]:
        hosts = self._hosts(fault)
        for host in hosts:
            self.world.pause(host)
        return lambda: _each(self.world.resume, hosts)

    # Network ----------------------------------------------------------------------------------

    def _cut_ways(self, ways: list[tuple[str, str]]) -> Callable[[], None]:
        for source, target in ways:
            self.net.cut(source, target)

        def undo() -> None:
            for source, target in ways:
                self.net.heal(source, target)

        return undo

    def _cut_one_way(self, fault: Fault) -> Callable[[], None] | None:
        return self._cut_ways([(fault.hosts[0], fault.hosts[-1])])

    def _cut(self, fault: Fault) -> Callable[[], None]:
        a, b = fault.hosts[0], fault.hosts[-1]
        return self._cut_ways([(a, b), (b, a)])

    def _split(self, fault: Fault) -> Callable[[], None]:
        """`hosts` on one side, all others on the other."""
        others = self._others(fault)
        ways = [way for a in fault.hosts for b in others for way in ((a, b), (b, a))]
        return self._cut_ways(ways)

    def _isolate(self, fault: Fault) -> Callable[[], None]:
        """The first of `hosts` reaches nobody; of odd size: is heard, but hears nobody."""
        one = fault.hosts[0]
        others = [name for name in sorted(self.world.hosts) if name != one]
        ways = [(name, one) for name in others]
        return self._cut_ways(ways if fault.size % 2 else [*ways, *((one, n) for n in others)])

    def _bridge(self, fault: Fault) -> Callable[[], None]:
        """Two sides that only the first of `hosts` reaches both of."""
        near = fault.hosts[1:]
        far = [name for name in self._others(fault) if name != fault.hosts[0]]
        return self._cut_ways([way for a in near for b in far for way in ((a, b), (b, a))])

    def _reset(self, fault: Fault) -> None:
        """Connections between two living processes break."""
        self.net.reset(fault.hosts[0], fault.hosts[-1])

    def _slow_link(self, fault: Fault) -> Callable[[], None]:
        a, b = fault.hosts[0], fault.hosts[-1]
        for way in ((a, b), (b, a)):
            self.net.slow(*way, fault.size * 10 * MS)

        def undo() -> None:
            for way in ((a, b), (b, a)):
                self.net.slow(*way, 0)

        return undo

    def _lossy(self, fault: Fault) -> Callable[[], None]:
        self.net.weather.loss_permille = 3 * fault.size
        return lambda: setattr(self.net.weather, "loss_permille", 0)

    def _doubling(self, fault: Fault) -> Callable[[], None]:
        self.net.weather.double_permille = 3 * fault.size
        return lambda: setattr(self.net.weather, "double_permille", 0)

    # Clocks and disks -------------------------------------------------------------------------

    def _clock_step(self, fault: Fault) -> None:
        """The wall clock is set back or forward, up to about an hour."""
        for host in self._hosts(fault):
            step = fault.size**2 * 360
            host.clock.step_wall(step if fault.size % 2 else -step)

    def _slow_disk(self, fault: Fault) -> Callable[[], None]:
        hosts = self._hosts(fault)
        for host in hosts:
            host.slow = 2 + fault.size

        def undo() -> None:
            for host in hosts:
                host.slow = 1

        return undo

    def _full_disk(self, fault: Fault) -> Callable[[], None]:
        """A few blocks are left."""
        hosts = self._hosts(fault)
        for host in hosts:
            host.quota(fault.size % 4)
        return lambda: _each(lambda host: host.quota(None), hosts)

    def _sync_error(self, fault: Fault) -> Callable[[], None]:
        """Every sync of the first host's disk fails (EIO)."""
        hosts = self._hosts(fault)
        for host in hosts:
            host.disk.sync_fails = lambda _path: True

        def undo() -> None:
            for host in hosts:
                host.disk.sync_fails = lambda _path: False

        return undo
