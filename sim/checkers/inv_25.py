"""INV-25: no acknowledgement by a broker that is not master of the epoch it stamps.

Made stronger by leases: at any instant of true time, whoever might acknowledge under a valid lease
is the master of the newest epoch that the controllers have committed. Asked of every broker each
time an epoch is committed (paused ones too: they may wake this very instant), and of the touched
one after every event.

Past its lease a master may acknowledge only what every member of the set that the controllers
committed last in its epoch holds (ADR 0044): that very record, in the log of each that runs. One
that is down, or lost its power without sync flush, cannot be asked; INV-20 judges at the end.
"""

from epochmq.controller.machine import Machine
from epochmq.store.draft import Appended
from epochmq.store.store import Store
from sim.checkers.base import Checker
from sim.checkers.inv_10 import span
from sim.host import Host
from sim.member import CLUSTER, GROUP, Member
from sim.violation import Violation
from sim.world import World


class LeaseSafety(Checker):
    """Knows the newest committed epoch, who is its master, and each epoch's last set."""

    rule = "INV-25"

    def __init__(self) -> None:
        self.epoch = 0
        self.master: int | None = None
        self.due = False
        self.applied = 0
        self.sets: dict[int, list[int]] = {}

    def group_applied(self, _host: Host, index: int, machine: Machine) -> None:
        for group in machine.groups.values():
            if group.epoch > self.epoch:
                self.epoch, self.master, self.due = group.epoch, group.master, True
        group_ = machine.groups.get((CLUSTER, GROUP))
        if index > self.applied and group_ is not None:
            self.applied = index
            self.sets[group_.epoch] = list(group_.members)

    def acked(self, member: Member, epoch: int, placed: object) -> None:
        leased = member.may_acknowledge(member.host.now)
        if leased and epoch < self.epoch:
            text = f"acknowledged under epoch {epoch}, {self.epoch} has begun"
            raise Violation(self.rule, text, (member.host.name,))
        if not leased:
            assert isinstance(placed, Appended)
            self.check_held(member, epoch, placed)

    def check_held(self, member: Member, epoch: int, placed: Appended) -> None:
        """Every member of the set of `epoch` has the record that was acknowledged."""
        wanted, asked = record_at(member, placed), 0
        for name, host in sorted(member.world.hosts.items()):
            other = host.process
            if not isinstance(other, Member) or other is member:
                continue
            if other.membership.broker_id not in self.sets.get(epoch, ()):
                continue
            store = getattr(other, "store", None)
            lost = host.power_cuts and isinstance(store, Store) and not store.options.sync_flush
            if lost:
                continue
            asked += 1
            if record_at(other, placed) != wanted:
                text = f"acknowledged past the lease of epoch {epoch}, and {name} has it not"
                raise Violation(self.rule, text, (member.host.name, name), (placed.offset,))
        member.world.mark(f"past_lease.members_asked_{asked}")

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


def record_at(member: Member, placed: Appended) -> bytes:
    """The bytes of the record in that broker's log; fewer when it ends before."""
    store = getattr(member, "store", None)
    assert isinstance(store, Store)
    end = min(placed.offset + placed.size, store.pointers.appended)
    return span(store, placed.offset, max(placed.offset, end))
