"""A world of Raft nodes alone: elections, commands, reads, snapshots and membership changes.

Checks INV-01 to INV-05, and INV-35 for a Raft group. The state machine is a running checksum.
"""

from collections.abc import Callable
from functools import partial
from zlib import crc32

from epochmq.base.errors import StoreDamaged, UsageError
from epochmq.raft.joining import Configured
from epochmq.raft.membership import ChangeKind
from epochmq.raft.options import RaftOptions
from epochmq.raft.raft_journal import Journal
from epochmq.raft.raft_messages import VotersAndLearners
from epochmq.raft.raft_node import Apply, Effect, RaftNode, ReadReady, Restore
from sim.kernel.checker import Checker
from sim.kernel.clocks import HostClock
from sim.kernel.faults import Fault, Injector, Swarm
from sim.kernel.host import Host
from sim.kernel.net import Net, Weather
from sim.kernel.plan import Plan
from sim.kernel.streams import SeededRng
from sim.kernel.violation import Violation
from sim.kernel.world import MS, SECOND, World
from sim.raft.inv_01 import OneLeader
from sim.raft.inv_01_loyalty import Loyalty
from sim.raft.inv_02 import LogMatching
from sim.raft.inv_03 import LeaderCompleteness
from sim.raft.inv_04 import StateMachineSafety
from sim.raft.inv_04_members import SnapshotMembers
from sim.raft.inv_05 import NeverBack
from sim.raft.raft_calm import Calm
from sim.raft.raft_shell import RaftShell

KINDS = {
    "kill": 5,
    "power": 4,
    "power_at_write": 4,
    "power_group": 1,
    "pause": 3,
    "cut": 2,
    "cut_one_way": 2,
    "split": 3,
    "isolate": 4,
    "bridge": 2,
    "slow_link": 1,
    "lossy": 3,
    "doubling": 2,
    "slow_disk": 2,
    "sync_error": 1,
    "full_disk": 1,
    "storm": 4,
}
NAMES = ("n0", "n1", "n2", "n3", "n4")
HEAL_MS = 30_000
PROPOSAL_BYTES_MAX = 4096
"""Proposals exceed disk sectors, so that a power cut may keep only a part of a write."""


class RaftProcess:
    """One node and its state machine, a checksum of all commands."""

    def __init__(self, history: "RaftHistory", host: Host) -> None:
        self.history = history
        self.host = host
        self.state = 0
        self.applied = 0
        self.reads: dict[int, int] = {}
        """Token -> the index that the read must include."""
        self.tokens = 0
        journal = Journal(host.disk, "raft", owner=host.name, chunk_bytes=history.chunk_bytes)
        rng = SeededRng(host.world.streams[f"raft:{host.name}"])
        empty = history.founds is not None or host.disks_lost > 0
        names = history.bootstrap.everyone if history.founds is not None else history.names
        try:
            self.raft = RaftNode.open(
                host.name,
                journal,
                VotersAndLearners(()) if empty else history.bootstrap,
                history.options,
                rng,
                host.now,
                history.safeguards,
                Configured(names, host.name in (history.founds or ())) if empty else None,
            )
        except StoreDamaged as error:
            raise Violation("INV-16", str(error), (host.name,)) from error
        self.shell = RaftShell(host, history.net, self.raft, self.act, history.sync_us)
        self.shell.pump()

    def wake(self, now: int) -> int:
        return self.shell.wake(now)

    def next_deadline(self) -> int:
        return self.raft.next_deadline()

    def state_line(self) -> str:
        return " ".join(f"{key}={value}" for key, value in self.raft.statistics().items())

    def act(self, effect: Effect) -> None:
        world = self.host.world
        if isinstance(effect, Apply):
            self.state, self.applied = crc32(effect.data, self.state), effect.index
            fact = (self.host, effect.index, effect.term, effect.data, self.state)
            world.tell("machine_applied", *fact)
        elif isinstance(effect, Restore):
            self.state, self.applied = int(effect.snapshot), effect.index
            world.tell("machine_restored", self.host, effect.index, self.state)
            world.mark("covered.restored")
        elif isinstance(effect, ReadReady):
            needed = self.reads.pop(effect.token)
            world.tell("read_confirmed", self.host, needed, self.applied)
            world.mark("covered.read")

    # Clients and operators --------------------------------------------------------------------

    def propose(self, data: bytes) -> None:
        if self.raft.propose(data) is not None:
            self.history.proposed += 1
        self.shell.pump()

    def read(self) -> None:
        self.tokens += 1
        self.reads[self.tokens] = self.history.machine.highest
        self.raft.read_index(self.tokens, self.host.now)
        self.shell.pump()

    def compact(self) -> None:
        if self.applied > self.raft.core.log.snapshot.index:
            self.raft.compact(self.applied, b"%d" % self.state)
            self.host.world.mark("covered.compacted")
        self.shell.pump()

    def transfer(self, node: str) -> None:
        if self.raft.transfer_to(node):
            self.host.world.mark("covered.transfer")
        self.shell.pump()

    def change(self, kind: ChangeKind, node: str) -> None:
        try:
            if self.raft.propose_change(kind, node) is not None:
                self.host.world.mark(f"covered.{kind.name.lower()}")
                if self.history.compacts:
                    self.compact()  # while the change is not committed
        except UsageError:
            pass
        self.shell.pump()


class Beheader(Checker):
    """During a storm, kills each new leader soon, after it has sent little of its log."""

    def __init__(self, history: "RaftHistory") -> None:
        self._history = history
        self._struck: set[int] = set()
        self._chance = history.world.streams["storm"]

    def observe(self, world: World) -> None:
        process = world.touched.process if world.touched is not None else None
        if not self._history.storms or not isinstance(process, RaftProcess):
            return
        raft, host = process.raft, process.host
        if raft.core.leader is None or raft.term in self._struck:
            return
        self._struck.add(raft.term)
        if self._chance.randrange(8) == 0:
            return
        span_us = 2 * (self._history.net.weather.delay_max_us + self._history.sync_us)
        for _ in range(self._chance.randrange(3)):
            propose = partial(process.propose, b"storm %d" % self._chance.getrandbits(32))
            world.after(self._chance.randrange(span_us), "propose", propose, host)
        at_us = self._chance.randrange(1 + int(span_us * self._chance.choice((0.1, 1, 2, 4))))
        incarnation = host.incarnation

        def strike() -> None:
            # A paused process would keep an event until after the heal.
            if host.up and host.incarnation == incarnation:
                world.power_off(host)

        world.after(at_us, "storm", strike)
        back_us = self._chance.randrange(20, 700) * MS
        world.after(at_us + back_us, "end storm", lambda: world.start(host))


class RaftInjector(Injector):
    """Adds storms and lost disks."""

    def __init__(self, history: "RaftHistory") -> None:
        super().__init__(history.world, history.net)
        self._history = history

    def _lose_disk(self, fault: Fault) -> Callable[[], None] | None:
        """Lose one disk at a time, and only while a majority of the voters keeps theirs."""
        (host,) = self._hosts(fault)
        if not self._history.may_lose_disk(host):
            return None
        self.world.lose_disk(host)
        self.world.mark("covered.lost_disk")
        return self._restart([host])

    def _storm(self, _fault: Fault) -> Callable[[], None]:
        self._history.storms += 1

        def undo() -> None:
            self._history.storms -= 1

        return undo


class RaftHistory:
    """Some seconds of a group with faults, then a time without."""

    def __init__(self, plan: Plan) -> None:
        self.world = World(plan.seed)
        self.safeguards = plan.safeguards
        swarm = self.world.streams["swarm"]
        self.chance = self.world.streams["workload"]
        self.sizes = self.world.streams["sizes"]
        stormy = swarm.randrange(5) == 0
        names = NAMES if stormy else NAMES[: swarm.choice((3, 3, 3, 5, 5))]
        extra = 0 if stormy else swarm.choice((0, 0, 0, 1, 2))
        voters = names[: max(1, len(names) - extra)]
        self.bootstrap = VotersAndLearners(voters, names[len(voters) :][:1])
        self.changes = swarm.randrange(3) == 0
        timeout = 150 if stormy else swarm.choice((150, 200, 400))
        self.options = RaftOptions(
            election_timeout_ms=timeout,
            heartbeat_ms=timeout // swarm.choice((3, 4)),
            lease_margin_ms=timeout // 4,
            append_bytes_max=1 if stormy else swarm.choice((1, 64, 1 << 20)),
            in_flight_max=swarm.choice((1, 4, 64)),
            snapshot_resend_ms=timeout,
        )
        self.chunk_bytes = swarm.choice((4096, 16384))
        self.sync_us = 1000 if stormy else swarm.choice((500, 3000, 20000))
        self.pace_us = swarm.choice((10, 25, 60)) * MS
        self.compacts = swarm.choice((0, 1, 4))
        self.safety_us = swarm.choice((2, 3, 5)) * SECOND
        self.net = Net(self.world, Weather(delay_max_us=swarm.choice((1, 2, 10)) * MS))
        self.proposed = 0
        self.names = names
        lost = self.world.streams["lost_disks"]
        self.founds: tuple[str, ...] | None = None
        """The nodes that may found the group when all disks are empty; None for an existing
        group.
        """
        if lost.randrange(6) == 0:
            self.bootstrap = VotersAndLearners(names)
            self.founds = tuple(lost.sample(names, lost.randint(1, len(names))))
        for name in names:
            host = self.world.add_host(name, lambda host: RaftProcess(self, host))
            host.clock = HostClock(swarm.randint(-20_000, 20_000), boot_ms=swarm.randrange(10_000))
        self.storms = 0
        self.injector = RaftInjector(self)
        drawn = self.draw(names, stormy)
        lost_disks = self.draw_lost_disks(names, len(drawn))
        self.loses_disks = bool(lost_disks)
        drawn += lost_disks
        self.faults = [f for f in drawn if plan.keep is None or f.number in plan.keep]
        self.machine = StateMachineSafety()
        checkers = [OneLeader(), LogMatching(), LeaderCompleteness(), self.machine, NeverBack()]
        if self.safeguards.check_quorum:
            checkers.append(Loyalty(timeout))
        checkers += [SnapshotMembers(), Calm(self.net, timeout), Beheader(self)]
        self.world.check_with(checkers)

    def draw(self, names: tuple[str, ...], stormy: bool) -> list[Fault]:
        """Draw faults of all kinds, or one long storm and few others."""
        chance = self.world.streams["faults"]
        if stormy:
            self.safety_us, self.compacts, self.pace_us = 8 * SECOND, 0, 200 * MS
            storm = Fault(0, "storm", 0, self.safety_us, names, 1)
            size = chance.choice((0, 30, 60))
            return [storm, Fault(1, "lossy", 0, self.safety_us, names, size)]
        return Swarm(
            KINDS,
            names,
            200 * MS,
            self.safety_us,
            count_max=10,
            span_max_us=4 * SECOND,
            groups=(names,),
        ).draw(chance)

    def draw_lost_disks(self, names: tuple[str, ...], number: int) -> list[Fault]:
        """Draw lost disks from a separate random stream, so that other faults do not change."""
        chance = self.world.streams["lost_disks"]
        found = []
        for count in range(chance.choice((0, 0, 1, 2, 4))):
            at_us = chance.randrange(200 * MS, self.safety_us)
            host = names[chance.randrange(len(names))]
            span_us = chance.randrange(SECOND)
            found.append(Fault(number + count, "lose_disk", at_us, span_us, (host,), 1))
        return found

    def may_lose_disk(self, host: Host) -> bool:
        """Return whether a disk may be lost: committed entries survive, and two others can
        elect.
        """
        processes = [found for found in map(self.process, self.names) if found is not None]
        if self.founds is not None and not any(found.raft.confirmed for found in processes):
            return len(processes) == len(self.names)
        if self.is_changing():
            return False
        leader = self.leader()
        if not self.changes:
            return len(self.bootstrap.voters) > 2 or host.name not in self.bootstrap.voters
        if leader is None or len(processes) < len(self.names):
            return False  # another log may have a change that is not visible here
        voters = leader.raft.members.voters
        return len(voters) > 2 or host.name not in voters

    def is_changing(self) -> bool:
        """Return whether members change, or the group is not complete after a lost disk.

        Removing a voter now could leave a group without a possible majority.
        """
        processes = [self.process(name) for name in self.names]
        found = [process.raft for process in processes if process is not None]
        if any(host.disks_lost and not host.up for host in self.world.hosts.values()):
            return True
        return any(
            not (raft.confirmed and raft.members == found[0].members)
            or raft.members.returning
            or raft.core.changed_at > raft.core.log.commit
            for raft in found
        )

    def schedule(self) -> list[str]:
        return [str(fault) for fault in self.faults]

    def play(self) -> None:
        world = self.world
        for _, host in sorted(world.hosts.items()):
            world.start(host)
        self.injector.schedule(self.faults)
        self.step()
        world.run_until(self.safety_us)
        self.injector.heal()
        self.demand_peace()
        world.finish()

    # The workload -----------------------------------------------------------------------------

    def step(self) -> None:
        """Do one random action of a client or operator, and schedule the next."""
        chance, world = self.chance, self.world
        if world.time_us < self.safety_us:
            world.after(1 + int(chance.expovariate(1 / self.pace_us)), "next", self.step)
        what, size_max = chance.randrange(40), chance.choice((16, 600, PROPOSAL_BYTES_MAX))
        size = self.sizes.randrange(size_max + 1)
        number = b"%d:" % world.trace.count + bytes(size)
        names = sorted(world.hosts)
        node, other = names[chance.randrange(len(names))], names[chance.randrange(len(names))]
        kind = chance.choice(list(ChangeKind))
        leaders = [p for p in map(self.process, names) if p is not None and p.raft.core.leader]
        target = chance.choice(leaders) if leaders else self.process(node)
        if target is None or target.host.paused:
            return
        if what < 26:
            world.after(0, "propose", lambda: target.propose(number), target.host)
        elif what < 35:
            world.after(0, "read", target.read, target.host)
        elif what < 35 + self.compacts:
            anyone = self.process(node)
            if anyone is not None:
                world.after(0, "compact", anyone.compact, anyone.host)
        elif what == 39 and self.changes and not (self.loses_disks and self.is_changing()):
            world.after(0, "change", lambda: target.change(kind, other), target.host)
        elif what == 38 and self.compacts < 4:
            world.after(0, "transfer", lambda: target.transfer(other), target.host)

    def process(self, name: str) -> RaftProcess | None:
        found = self.world.hosts[name].process
        return found if isinstance(found, RaftProcess) else None

    # After the heal ---------------------------------------------------------------------------

    def demand_peace(self) -> None:
        """Check that within 30 s of the heal there is a leader, a command succeeds, and all
        agree.
        """
        deadline = self.world.time_us + HEAL_MS * MS
        if not self.world.run_until(deadline, self._leader_is_there):
            raise Violation("INV-35", "no leader after the heal")
        last = b"last"
        while not self._all_applied(last):
            leader = self.leader()
            if leader is not None:
                self.world.after(0, "propose", lambda p=leader: p.propose(last), leader.host)
            # Followers learn of the commit by the next heartbeat.
            self.world.run_until(self.world.time_us + SECOND, lambda: self._all_applied(last))
            if self.world.time_us > deadline:
                raise Violation("INV-35", "no command goes through after the heal")

    def leader(self) -> RaftProcess | None:
        """Return the leader of the newest term; None if there is no leader."""
        leaders = [p for p in map(self.process, self.world.hosts) if p and p.raft.is_leader]
        return max(leaders, key=lambda p: p.raft.term) if leaders else None

    def _leader_is_there(self) -> bool:
        return self.leader() is not None

    def _all_applied(self, last: bytes) -> bool:
        leader = self.leader()
        if leader is None:
            return False
        there = [self.process(name) for name in leader.raft.members.everyone]
        if leader.raft.members.returning or not all(p and p.raft.confirmed for p in there):
            return False
        ends = {p.applied if p else -1 for p in there}
        known = self.machine.applied.get(leader.applied)
        return len(ends) == 1 and known is not None and known[1] == last


def history(plan: Plan) -> RaftHistory:
    return RaftHistory(plan)
