"""INV-07: master epoch and set epoch only rise in the machine, and never go back at a broker."""

from epochmq.controller.machine import Machine
from sim.controller.member import Member
from sim.kernel.checker import Checker
from sim.kernel.host import Host
from sim.kernel.violation import Violation
from sim.kernel.world import World


class EpochsRise(Checker):
    """By index in the machine; by host, across its restarts, for what it acts upon."""

    rule = "INV-07"

    def __init__(self) -> None:
        self.applied = 0
        self.groups: dict[tuple[str, str], tuple[int, int]] = {}
        self.brokers: dict[str, int] = {}
        self.views: dict[tuple[str, int], tuple[int, int]] = {}

    def controllers_wiped(self) -> None:
        """Other controllers know nothing of before; brokers do."""
        self.applied = 0
        self.groups.clear()

    def group_applied(self, host: Host, index: int, machine: Machine) -> None:
        if index <= self.applied:
            return
        self.applied = index
        for key, group in sorted(machine.groups.items()):
            before, now = self.groups.get(key, (0, 0)), (group.epoch, group.set_epoch)
            if now[0] < before[0] or now[1] < before[1]:
                raise Violation(self.rule, f"{key}: {before} -> {now}", (host.name,), (index,))
            self.groups[key] = now

    def observe(self, world: World) -> None:
        host = world.touched
        if host is None or not isinstance(host.process, Member):
            return
        member = host.process
        known, saved = member.membership.known.master_epoch, self.brokers.get(host.name, 0)
        if known < saved:
            raise Violation(self.rule, f"a broker forgot epoch {saved}", (host.name,))
        view = member.membership.view
        key, now = (host.name, host.incarnation), (view.epoch, view.set_epoch)
        before = self.views.get(key, (0, 0))
        if now < before:
            text = f"a broker's view went back: {before} -> {now}"
            raise Violation(self.rule, text, (host.name,))
        self.views[key] = now

    def known_saved(self, host: Host, epoch: int) -> None:
        self.brokers[host.name] = max(epoch, self.brokers.get(host.name, 0))
