"""Faults of groups without controllers: general ones, and some that hit a broker by its role."""

from collections import Counter
from collections.abc import Callable
from functools import partial

from epochmq.broker.serving.roles import Role
from sim.acting.acting_broker import BrokerProcess
from sim.kernel.faults import Fault, Injector
from sim.kernel.host import Host
from sim.kernel.net import Net
from sim.kernel.world import MS, World

KINDS = {
    "kill": 3,
    "pause": 2,
    "cut": 2,
    "cut_one_way": 2,
    "split": 1,
    "isolate": 2,
    "reset": 3,
    "slow_link": 1,
    "slow_disk": 1,
    "kill_master": 8,
    "pause_master": 4,
    "isolate_master": 3,
    "kill_stand_in": 4,
    "kill_returning": 4,
    "kill_handing_over": 6,
    "kill_names": 3,
    "cut_names": 2,
}


class ActingInjector(Injector):
    """Faults that strike whoever has a role at that moment; `size` draws which of them.

    Who was cut off from others, or stood still, is noted with the time when that ended.
    """

    def __init__(self, world: World, net: Net) -> None:
        super().__init__(world, net)
        self._hindered: Counter[str] = Counter()
        self._free_us: dict[str, int] = {}
        self.traps: list[Fault] = []

    def hindered(self, name: str, within_us: int) -> bool:
        """Whether the host was cut off or paused within the last so many microseconds."""
        free_us = self._free_us.get(name)
        lately = free_us is not None and self.world.time_us - free_us < within_us
        return self._hindered[name] > 0 or lately

    def _hinder(self, names: set[str], undo: Callable[[], None]) -> Callable[[], None]:
        self._hindered.update(names)

        def free() -> None:
            self._hindered.subtract(names)
            self._free_us.update(dict.fromkeys(names, self.world.time_us))
            undo()

        return free

    def _cut_ways(self, ways: list[tuple[str, str]]) -> Callable[[], None]:
        return self._hinder({name for way in ways for name in way}, super()._cut_ways(ways))

    def _pause(self, fault: Fault) -> Callable[[], None]:
        return self._hinder(set(fault.hosts), super()._pause(fault))

    def _with_role(self, *roles: Role) -> list[str]:
        return [
            name
            for name, host in sorted(self.world.hosts.items())
            if isinstance(host.process, BrokerProcess) and host.process.role in roles
        ]

    def _one(self, fault: Fault, kind: str, *roles: Role) -> Callable[[], None] | None:
        names = self._with_role(*roles)
        if not names:
            return None
        hosts = (names[fault.size % len(names)],)
        struck: Callable[[], None] | None = getattr(self, kind)(
            Fault(fault.number, fault.kind, fault.at_us, fault.span_us, hosts, fault.size)
        )
        return struck

    def _kill_master(self, fault: Fault) -> Callable[[], None] | None:
        return self._one(fault, "_kill", Role.MASTER)

    def _pause_master(self, fault: Fault) -> Callable[[], None] | None:
        return self._one(fault, "_pause", Role.MASTER)

    def _isolate_master(self, fault: Fault) -> Callable[[], None] | None:
        return self._one(fault, "_isolate", Role.MASTER)

    def _kill_stand_in(self, fault: Fault) -> Callable[[], None] | None:
        return self._one(fault, "_kill", Role.ACTING_MASTER)

    def _kill_returning(self, fault: Fault) -> Callable[[], None] | None:
        return self._one(fault, "_kill", Role.PRE_ONLINE)

    def _kill_handing_over(self, fault: Fault) -> Callable[[], None]:
        """At the next hand-over one of the two dies, some fractions of a millisecond later."""
        self.traps.append(fault)
        return lambda: self.traps.remove(fault) if fault in self.traps else None

    def hands_over(self, giver: Host, taker: Host) -> None:
        """`giver` was asked to step down for `taker`."""
        for fault in self.traps:
            victim = (giver, taker)[fault.size % 2]
            start = partial(self.world.start, victim)
            self.world.after(fault.size * 30, f"kill {victim.name}", partial(self._trap, victim))
            self.world.after(fault.span_us + MS, f"start {victim.name}", start)
        self.traps.clear()

    def _trap(self, victim: Host) -> None:
        if victim.up:
            self.world.mark("covered.died_handing_over")
            self.world.kill(victim)

    def _kill_names(self, fault: Fault) -> Callable[[], None] | None:
        names = tuple(name for name in sorted(self.world.hosts) if name[0] == "n")
        count = 1 + fault.size % len(names)
        return self._kill(
            Fault(fault.number, fault.kind, fault.at_us, fault.span_us, names[:count], fault.size)
        )

    def _cut_names(self, fault: Fault) -> Callable[[], None] | None:
        """One broker and the name servers do not see each other."""
        names = [name for name in sorted(self.world.hosts) if name[0] == "n"]
        brokers = self._with_role(*Role)
        if not brokers:
            return None
        one = brokers[fault.size % len(brokers)]
        return self._cut_ways([way for n in names for way in ((one, n), (n, one))])
