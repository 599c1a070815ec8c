"""The world `acting` with machines that fail: power, wall clocks, disks, two brokers in a process.

What a seed draws here, each on its own (ADR 0064), and what may be lost by it:

- power cuts, with SYNC_FLUSH: nothing that was acknowledged, alone or with slaves. ASYNC_FLUSH
  promises nothing of the kind (what lay behind `synced` may go), so such seeds have no power cuts,
  not even of the other broker in the process of one that loses its disk;
- wall clocks of brokers that are set, by up to an hour: nothing;
- SYNC_MASTER, with `inSyncReplicas` 2, or as many as there are (enableAutoInSyncReplicas);
- the disk of a master is lost for good, at once or some time after it lost its slaves, only where
  two copies are asked for always, and only while there are two: nothing that was acknowledged.
  What was not may have been read, and its place is another's then (`Book.torn`, INV-22);
- broker containers: a slave and the other group's master share a process, and escape through it.

Old seeds of `acting` keep their histories: this is another kind of world.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import ClassVar

from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.server.container_service import ContainerNeighbours
from epochmq.broker.serving.roles import Role
from sim.acting.acting_broker import BrokerProcess
from sim.acting.acting_faults import KINDS, ActingInjector
from sim.acting.acting_world import ActingHistory
from sim.hard.hard_operator import Operator
from sim.kernel.disk import SimDisk
from sim.kernel.faults import Fault
from sim.kernel.host import Host
from sim.kernel.plan import Plan
from sim.kernel.world import MS, SECOND, World

POWER = {"power": 4, "power_master": 5, "power_stand_in": 3, "power_at_write": 3}
CLOCKS = {"clock_step": 8}
WIPES = {"wipe_master": 12, "wipe_cut_off": 12}
FAR_MS = 2 * 3_600_000
"""Further than clocks are set: what was taken by a clock that was ahead is due by then."""
HELD_BACK_US = 8 * SECOND
SLAVE_TIMEOUT_MS = 400
LOG_FILE_BYTES = 1 << 20
"""A store that was moved away is copied whole: a slave without a log begins with the last file."""


class HardWorld(World):
    """Two hosts may be one machine; one without its disk does not start."""

    def __init__(self, seed: object) -> None:
        super().__init__(seed)
        self.mates: dict[str, str] = {}
        """Who shares a process."""
        self.syncs = False
        """Whether brokers have SYNC_FLUSH: else no power cut may reach one that keeps its disk."""
        self.wiped: set[str] = set()
        """Whose disk is gone, and nobody has put a store there."""
        self.short: set[str] = set()
        """Groups that lost a store, and whose others have not all copied the log since: two copies
        are promised, so the next disk may be lost only when there are two again."""
        self.torn: set[str] = set()
        """Groups that ever lost a disk, and with it what only that one had."""

    def mate(self, host: Host) -> Host | None:
        name = self.mates.get(host.name)
        return None if name is None else self.hosts[name]

    def start(self, host: Host) -> None:
        mate = self.mate(host)
        for one in (host, mate):
            if one is not None and one.name not in self.wiped:
                super().start(one)

    def pause(self, host: Host) -> None:
        for one in (host, self.mate(host)):
            if one is not None:
                super().pause(one)

    def resume(self, host: Host) -> None:
        for one in (host, self.mate(host)):
            if one is not None:
                super().resume(one)

    def _down(self, host: Host, power: bool) -> None:
        super()._down(host, power)
        mate = self.mate(host)
        if mate is not None and mate.up:
            if power and self.syncs:
                self.power_off(mate)
            else:
                self.kill(mate)


class HardInjector(ActingInjector):
    """Also strikes machines."""

    healed = False
    """Whether the safety phase is over: nobody starts again who is struck after that."""

    def heal(self) -> None:
        self.healed = True
        super().heal()

    def _pause(self, fault: Fault) -> Callable[[], None]:
        """Who shares its process stands still too, and name servers do not hear it either."""
        assert isinstance(self.world, HardWorld)
        mates = self.world.mates
        return self._hinder({mates[n] for n in fault.hosts if n in mates}, super()._pause(fault))

    def _power_master(self, fault: Fault) -> Callable[[], None] | None:
        return self._one(fault, "_power", Role.MASTER)

    def _power_stand_in(self, fault: Fault) -> Callable[[], None] | None:
        return self._one(fault, "_power", Role.ACTING_MASTER)

    def _wipe_master(self, fault: Fault) -> Callable[[], None] | None:
        return self._one(fault, "_wipe", Role.MASTER)

    def _wipe(self, fault: Fault) -> Callable[[], None] | None:
        """A broker is gone with its disk; an operator does the rest. Who shares its process has a
        disk of its own, and dies as by a kill, or with SYNC_FLUSH as by a power cut."""
        (host,) = self._hosts(fault)
        assert isinstance(self.world, HardWorld)
        if self.healed or not host.up or host.name[0] in self.world.short:
            self.world.mark("covered.spared")
            return None
        self.world.mark("covered.wiped")
        self.world.wiped.add(host.name)
        self.world.short.add(host.name[0])
        self.world.torn.add(host.name[0])
        self.world.power_off(host)
        host.disk = SimDisk()
        return self._restart([host])

    def _wipe_cut_off(self, fault: Fault) -> Callable[[], None] | None:
        """The master loses its slaves, and some time later its disk, if that is before the heal:
        what it was sent in between has one copy, and must not have been acknowledged."""
        masters = self._with_role(Role.MASTER)
        if not masters:
            return None
        name = masters[fault.size % len(masters)]
        others = [n for n in self.world.hosts if n[0] == name[0] and n != name]
        undo = self._cut_ways([way for n in others for way in ((name, n), (n, name))])
        struck = Fault(fault.number, fault.kind, fault.at_us, fault.span_us, (name,), fault.size)
        self.world.after(fault.size * 5 * MS, f"wipe {name}", partial(self._wipe, struck))
        return undo

    def _clock_step(self, fault: Fault) -> None:
        super()._clock_step(fault)
        self.world.tell("clocks_set")


class HardHistory(ActingHistory):
    """Some seconds of two groups on such machines."""

    world_kind: ClassVar[type[World]] = HardWorld
    injector_kind: ClassVar[type[ActingInjector]] = HardInjector
    world: HardWorld

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.right = {n: host.clock.wall_at_start_ms for n, host in self.world.hosts.items()}
        self.operator = Operator(self)
        self.book.torn = self.world.torn

    def draw(self, sizes: Random) -> None:
        super().draw(sizes)
        hard = Random(f"{self.plan.seed}:hard")
        self.kinds = dict(KINDS)
        self.drawn["mapped_file_size_commit_log"] = LOG_FILE_BYTES
        if hard.randrange(2):
            self.kinds |= POWER
            self.drawn["flush_disk_type"] = "SYNC_FLUSH"
        self.world.syncs = self.drawn["flush_disk_type"] == "SYNC_FLUSH"
        self.sets_clocks = hard.randrange(3) == 0
        if self.sets_clocks:
            self.kinds |= CLOCKS
        self.draw_copies(hard)
        self.shares = hard.randrange(3) == 0
        if self.shares:
            self.world.mates = {"a0": "b1", "b1": "a0", "b0": "a1", "a1": "b0"}
            self.drawn["enable_remote_escape"] = hard.randrange(2) > 0

    def draw_copies(self, hard: Random) -> None:
        """How many copies an acknowledgement says that there are."""
        shape = hard.choice(("one", "two", "two", "two at least", "as many as there are"))
        if shape == "one":
            return
        self.world.mark(f"drawn.{shape}")
        self.master_role = "SYNC_MASTER"
        self.drawn |= {
            "in_sync_replicas": 2,
            "slave_timeout": SLAVE_TIMEOUT_MS,
            "enable_auto_in_sync_replicas": shape != "two",
            "min_in_sync_replicas": 2 if shape == "two at least" else 1,
        }
        if shape != "as many as there are" and hard.randrange(2):
            self.kinds |= WIPES

    def fault_kinds(self) -> dict[str, int]:
        return self.kinds

    def alter(self, process: BrokerProcess) -> None:
        super().alter(process)
        if self.shares:
            near = ContainerNeighbours(process.node, lambda: self.inside(process))
            process.watched.escape.neighbours = near

    def inside(self, process: BrokerProcess) -> list[BrokerContext]:
        """The brokers of its process."""
        mate = self.world.mate(process.host)
        other = None if mate is None else mate.process
        near = [other] if isinstance(other, BrokerProcess) and other.ready else []
        return [one.node for one in (process, *near)]

    def be_well(self) -> None:
        """Clocks are right again; those who waited for one that was ahead are helped."""
        if self.sets_clocks:
            self.set_clocks()
            self.world.after(HELD_BACK_US, "clocks", self.all_is_due)
        super().be_well()
        near = sum(broker.watched.escape.near for broker in self.brokers())
        self.world.marks["covered.escaped_near"] += near

    def set_clocks(self, ahead_ms: int = 0) -> None:
        for name, right in self.right.items():
            clock = self.world.hosts[name].clock
            clock.step_wall(right + ahead_ms - clock.wall_at_start_ms)
        self.world.tell("clocks_set")

    def all_is_due(self) -> None:
        if not self.draining:
            self.world.mark("covered.far")
            self.set_clocks(FAR_MS)


def history(plan: Plan) -> HardHistory:
    return HardHistory(plan)
