"""INV-25: no acknowledgement by a broker that is not master of the epoch it stamps.

Made stronger by leases: at any instant of true time, whoever might acknowledge under a valid lease
is the master of the newest epoch that the controllers have committed. Asked of every broker each
time an epoch is committed (paused ones too: they may wake this very instant), and of the touched
one after every event.

What is acknowledged is held by every member of the set that the controllers committed last in that
epoch (past the lease: ADR 0044): that very record, in the log of each that runs, and with sync
flush on its device. Under a lease, where the policy waits for fewer than all, that many hold it.
Not asked are members that are down, those that lost their power without sync flush, and one whose
disk was damaged, of what it had until then; INV-20 judges at the end.
"""

from epochmq.controller.machine import Machine
from epochmq.replication.ack_policy import needed
from epochmq.replication.replication_node import ReplicationNode
from epochmq.store.draft import Appended
from epochmq.store.store import Store
from sim.controller.member import CLUSTER, GROUP, Member
from sim.kernel.checker import Checker
from sim.kernel.host import Host
from sim.kernel.violation import Violation
from sim.kernel.world import World
from sim.store.store_shell import log_span


class LeaseSafety(Checker):
    """Knows the newest committed epoch, who is its master, and each epoch's last set."""

    rule = "INV-25"

    def __init__(self) -> None:
        self.epoch = 0
        self.master: int | None = None
        self.due = False
        self.applied = 0
        self.sets: dict[int, list[int]] = {}
        self.damaged: dict[str, int] = {}
        """Host -> where the longest log ended when its disk was damaged."""

    def controllers_wiped(self) -> None:
        """Others go on; what they committed before still binds its masters."""
        self.applied = 0

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
        assert isinstance(placed, Appended)
        self.check_held(member, epoch, placed, leased)

    def disk_damaged(self, host: Host) -> None:
        running = (getattr(other.process, "store", None) for other in host.world.hosts.values())
        ends = [found.pointers.appended for found in running if isinstance(found, Store)]
        self.damaged[host.name] = max(ends, default=0)

    def check_held(self, member: Member, epoch: int, placed: Appended, leased: bool) -> None:
        """The members of the set of `epoch` have the record that was acknowledged."""
        wanted, asked = record_at(member, placed), 0
        found: dict[int, bool] = {}
        names: dict[int, str] = {}
        for name, host in sorted(member.world.hosts.items()):
            other = host.process
            if not isinstance(other, Member):
                continue
            broker_id = other.membership.broker_id
            if broker_id is None or broker_id not in self.sets.get(epoch, ()):
                continue
            if self.cannot_know(host, placed):
                continue
            asked += other is not member
            names.setdefault(broker_id, name)
            found[broker_id] = found.get(broker_id, False) or holds(other, placed, wanted)
        without = [names[broker_id] for broker_id, held in sorted(found.items()) if not held]
        if without and (not leased or len(without) > self.spared(member, epoch)):
            text = f"acknowledged in epoch {epoch}, and not held by {', '.join(without)}"
            raise Violation(self.rule, text, (member.host.name, *without), (placed.offset,))
        lease = "under_lease" if leased else "past_lease"
        member.world.mark(f"{lease}.members_asked_{asked}")

    def cannot_know(self, host: Host, placed: Appended) -> bool:
        """Whether it may have lost what it acknowledged, as its options or its disk allow."""
        store = getattr(host.process, "store", None)
        if host.power_cuts and isinstance(store, Store) and not store.options.sync_flush:
            return True
        return placed.offset < self.damaged.get(host.name, 0)

    def spared(self, member: Member, epoch: int) -> int:
        """How many members of the set the policy does not wait for."""
        node = getattr(member, "node", None)
        if not isinstance(node, ReplicationNode):
            return 0
        members = len(self.sets.get(epoch, ()))
        return members - min(members, needed(node.options, members))

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


def holds(member: Member, placed: Appended, wanted: bytes) -> bool:
    """Whether that broker's log has the record, on its device with sync flush."""
    store = getattr(member, "store", None)
    assert isinstance(store, Store)
    if store.options.sync_flush and store.pointers.synced < placed.offset + placed.size:
        return False
    return record_at(member, placed) == wanted


def record_at(member: Member, placed: Appended) -> bytes:
    """The bytes of the record in that broker's log; fewer when it ends before."""
    store = getattr(member, "store", None)
    assert isinstance(store, Store)
    end = min(placed.offset + placed.size, store.pointers.appended)
    return log_span(store, placed.offset, max(placed.offset, end))
