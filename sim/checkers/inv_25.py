"""INV-25: no acknowledgement by a broker that is not master of the epoch it stamps.

Made stronger by leases: at any instant of true time, whoever might acknowledge under a valid lease
is the master of the newest epoch that the controllers have committed. Asked of every broker each
time an epoch is committed (paused ones too: they may wake this very instant), and of the touched
one after every event.
"""

from epochmq.controller.machine import Machine
from sim.checkers.base import Checker
from sim.host import Host
from sim.member import Member
from sim.violation import Violation
from sim.world import World


class LeaseSafety(Checker):
    """Knows the newest committed epoch and who is its master."""

    rule = "INV-25"

    def __init__(self) -> None:
        self.epoch = 0
        self.master: int | None = None
        self.due = False

    def group_applied(self, _host: Host, _index: int, machine: Machine) -> None:
        for group in machine.groups.values():
            if group.epoch > self.epoch:
                self.epoch, self.master, self.due = group.epoch, group.master, True

    def acked(self, member: Member, epoch: int, _placed: object) -> None:
        if epoch < self.epoch:
            text = f"acknowledged under epoch {epoch}, {self.epoch} has begun"
            raise Violation(self.rule, text, (member.host.name,))

    def observe(self, world: World) -> None:
        if self.due:
            self.due = False
            for _, host in sorted(world.hosts.items()):
                self.check(host)
        elif world.touched is not None:
            self.check(world.touched)

    def check(self, host: Host) -> None:
        member = host.process
        if not isinstance(member, Member) or not member.may_acknowledge(host.now):
            return
        if member.epoch < self.epoch:
            lease = member.membership.lease.until_ms - host.now
            text = f"epoch {self.epoch} has begun, a master of {member.epoch} has {lease} ms left"
            raise Violation(self.rule, text, (host.name,))
