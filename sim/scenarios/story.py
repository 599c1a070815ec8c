"""What stories of a group have in common: three brokers and controllers, words of scripts."""

from collections.abc import Callable
from random import Random

from epochmq.controller.controller_state import BrokerGroup
from sim.controller.controller_world import controller_checkers
from sim.controller.controllers import ControllerProcess
from sim.controller.member import CLUSTER, GROUP
from sim.group.brokers import Broker
from sim.group.group_world import GroupHistory
from sim.kernel.disk import SimDisk
from sim.kernel.faults import Fault
from sim.kernel.world import MS, SECOND
from sim.scenarios.script import Missed, Scripted

WAIT_MAX_US = 8 * SECOND
RAFT_RULES = ("INV-01", "INV-02", "INV-03", "INV-04", "INV-05")


class Story(Scripted, GroupHistory):
    """Subclasses write `script`, and say what they need."""

    sync = True
    """Sync flush."""
    minimum = 2
    """minInSyncReplicas"""
    count = 3

    def draw_counts(self, sizes: Random) -> None:
        self.broker_count = self.count
        self.controller_count = 3
        self.client_count = 1
        self.sync_flush = self.sync
        self.least = self.minimum

    def draw_sizes(self, sizes: Random) -> None:
        super().draw_sizes(sizes)
        self.cluster.net.weather.delay_max_us = sizes.choice((1, 2, 5)) * MS
        self.safety_us = 60 * SECOND
        self.pace_us = sizes.choice((3, 6, 12)) * MS
        self.sync_us = sizes.choice((200, 1000))

    def draw_faults(self, sizes: Random) -> list[Fault]:
        return []

    def settle_in(self) -> None:
        self.world.run_until(self.world.time_us + self.noise(20, 200))

    def storm(self) -> None:
        super().storm()
        self.cluster.misled.clear()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        world = self.world
        if not world.run_until(world.time_us + WAIT_MAX_US, condition):
            raise Missed

    # Words of scripts -----------------------------------------------------------------------------

    def broker(self, name: str) -> Broker:
        process = self.world.hosts[name].process
        if not isinstance(process, Broker):
            raise Missed
        return process

    def master(self) -> str:
        """The broker that may acknowledge now."""
        for broker in self.brokers():
            if broker.may_acknowledge(broker.host.now):
                return broker.host.name
        raise Missed

    def is_master(self, *names: str) -> bool:
        """Whether one of `names` may acknowledge."""
        brokers = [b for b in self.brokers() if b.host.name in names]
        return any(b.may_acknowledge(b.host.now) for b in brokers)

    def others(self, *names: str) -> list[str]:
        return [name for name in self.cluster.broker_names if name not in names]

    def cut(self, one: str | tuple[str, ...], other: str | tuple[str, ...]) -> None:
        """Both ways."""
        self.cut_way(one, other)
        self.cut_way(other, one)

    def cut_way(self, source: str | tuple[str, ...], target: str | tuple[str, ...]) -> None:
        for a in (source,) if isinstance(source, str) else source:
            for b in (target,) if isinstance(target, str) else target:
                if a != b:
                    self.cluster.net.cut(a, b)

    def mend(self) -> None:
        """All cuts heal."""
        self.cluster.net.heal_all()

    def wipe_controllers(self) -> None:
        """They lose their disks, and are a new Raft group; checkers of brokers know what was."""
        self.world.forget_checkers(*RAFT_RULES)
        self.world.check_with([c for c in controller_checkers() if c.rule in RAFT_RULES])
        self.world.tell("controllers_wiped")
        for name in self.controllers:
            self.host(name).disk = SimDisk()

    @property
    def controllers(self) -> tuple[str, ...]:
        return self.cluster.controller_names

    def group(self) -> BrokerGroup:
        """The group as the controller that has applied most knows it."""
        processes = [self.host(name).process for name in self.controllers]
        machines = [p.node.machine for p in processes if isinstance(p, ControllerProcess)]
        newest = max(machines, key=lambda machine: machine.applied)
        found = newest.groups.get((CLUSTER, GROUP))
        if found is None:
            raise Missed
        return found

    def members(self) -> list[str]:
        """Hosts of the committed set."""
        ids = self.group().members
        return [b.host.name for b in self.brokers() if b.membership.broker_id in ids]

    def counted(self, master: str) -> int:
        """How many replicas the master's acknowledgements count now; 0 for no master."""
        node = self.broker(master).node
        return len(node.master.in_sync.effective) if node and node.master else 0

    def tail(self, name: str) -> int:
        """Bytes of its log that are not confirmed."""
        pointers = self.broker(name).store.pointers
        return pointers.appended - pointers.confirmed
