"""A group of real nodes on simulated disks, driven by hand: one clock, one list of messages."""

from collections.abc import Callable

from sim.kernel.disk import SimDisk

from epochmq.base.errors import EpochError
from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.raft.joining import Configured
from epochmq.raft.options import RaftOptions
from epochmq.raft.raft_journal import Journal
from epochmq.raft.raft_messages import AnyMessage, VotersAndLearners, decode
from epochmq.raft.raft_node import Apply, Effect, RaftNode, Restore, SendBytes

OPTIONS = RaftOptions()


class FixedRng:
    """`base.ports.Rng` that always draws the same share."""

    def __init__(self, value: int) -> None:
        self.value = value

    def randrange(self, stop: int) -> int:
        return self.value % stop


class Cluster:
    """Nodes by name; a node that is down is missing in `nodes` and has its disk in `disks`.

    The election timeouts of the nodes differ by 200 ms, so the first node campaigns first.
    """

    def __init__(
        self,
        *voters: str,
        learners: tuple[str, ...] = (),
        options: RaftOptions = OPTIONS,
        safe: Safeguards = SAFE,
        empty: bool = False,
    ) -> None:
        self.bootstrap = VotersAndLearners(voters, learners)
        self.options = options
        self.safe = safe
        self.now = 0
        self.autosync = True
        self.election_delay_ms: dict[str, int] = {}
        self.disks: dict[str, SimDisk] = {}
        self.nodes: dict[str, RaftNode] = {}
        self.waiting: list[tuple[str, SendBytes]] = []
        """Messages under way, oldest first, with their senders."""
        self.cuts: set[tuple[str, str]] = set()
        self.machines: dict[str, list[bytes]] = {}
        """What each state machine has been given."""
        self.effects: list[tuple[str, Effect]] = []
        """Everything but messages, with who it happened to."""
        self.on_send: Callable[[str, AnyMessage], None] = lambda _sender, _message: None
        for name in () if empty else self.bootstrap.everyone:
            self.add(name)

    def add(self, name: str, joins: bool = False) -> None:
        """Start a node that was not there; one that `joins` knows no members."""
        self.election_delay_ms.setdefault(name, 200 * len(self.disks))
        self.disks[name] = SimDisk()
        self.start(name, VotersAndLearners(()) if joins else self.bootstrap)

    def start(
        self,
        name: str,
        bootstrap: VotersAndLearners | None = None,
        configured: Configured | None = None,
    ) -> RaftNode:
        journal = Journal(self.disks[name], "raft", owner=name, chunk_bytes=4096)
        self.machines[name] = []
        self.nodes[name] = RaftNode.open(
            name,
            journal,
            bootstrap or self.bootstrap,
            self.options,
            FixedRng(self.election_delay_ms[name]),
            self.now,
            self.safe,
            configured,
        )
        self.collect(name)
        return self.nodes[name]

    def start_empty(self, name: str, *, new_group: bool = False) -> RaftNode:
        """Start a configured member whose disk may be empty, as controllers do."""
        self.disks.setdefault(name, SimDisk())
        self.election_delay_ms.setdefault(name, 200 * len(self.disks))
        names = self.bootstrap.everyone
        return self.start(name, VotersAndLearners(()), Configured(names, new_group))

    def lose_disk(self, name: str) -> None:
        """The node stops, and its disk is replaced by an empty one."""
        self.nodes.pop(name, None)
        self.disks[name] = SimDisk()

    def crash(self, name: str, seed: object = 0) -> None:
        """The power of one node goes."""
        del self.nodes[name]
        self.disks[name] = self.disks[name].crash(seed)

    # Moving -----------------------------------------------------------------------------------

    def collect(self, name: str) -> None:
        """Sync if that goes by itself, and sort the effects of one node."""
        node = self.nodes[name]
        self._sort(name, node.pop_effects())
        while self.autosync and (call := node.pending_sync()) is not None:
            call()
            node.synced(self.now)
            self._sort(name, node.pop_effects())

    def sync(self, name: str) -> bool:
        """One sync; False when nothing waits."""
        node = self.nodes[name]
        call = node.pending_sync()
        if call is None:
            return False
        call()
        node.synced(self.now)
        self.collect(name)
        return True

    def _sort(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SendBytes):
                self.on_send(name, decode(effect.data))
                if (name, effect.node_id) not in self.cuts:
                    self.waiting.append((name, effect))
                continue
            if isinstance(effect, Apply):
                self.machines[name].append(effect.data)
            elif isinstance(effect, Restore):
                self.machines[name] = effect.snapshot.split(b",")
            self.effects.append((name, effect))

    def hand_over(self, send: SendBytes) -> None:
        """Deliver one message; a node that is down loses it."""
        node = self.nodes.get(send.node_id)
        if node is not None:
            node.receive(send.data, self.now)
            self.collect(send.node_id)

    def settle(self) -> None:
        """Deliver everything until nobody says anything more."""
        while self.waiting:
            _sender, send = self.waiting.pop(0)
            self.hand_over(send)

    def tick(self, name: str) -> None:
        self.nodes[name].tick(self.now)
        self.collect(name)

    def run(self, ms: int) -> None:
        """Let time pass; everything is delivered at once, timers ring when they are due."""
        until = self.now + ms
        self.settle()
        while True:
            due = min((node.next_deadline(), name) for name, node in sorted(self.nodes.items()))
            if due[0] > until:
                break
            self.now = max(self.now, due[0])
            self.tick(due[1])
            self.settle()
        self.now = until

    # Wishes -----------------------------------------------------------------------------------

    def isolate(self, name: str) -> None:
        for other in self.disks:
            if other != name:
                self.cuts |= {(name, other), (other, name)}

    def heal(self) -> None:
        self.cuts.clear()

    @property
    def leader(self) -> RaftNode:
        """The one node that leads at the highest term."""
        leading = [node for node in self.nodes.values() if node.is_leader]
        if not leading:
            raise EpochError("nobody leads")
        return max(leading, key=lambda node: node.term)

    def elect(self, name: str) -> RaftNode:
        """Let the election timeout of `name` end first, and let it win."""
        self.now = max(self.now + self.options.election_timeout_ms * 2, 1)
        self.tick(name)
        self.settle()
        assert self.nodes[name].is_leader
        return self.nodes[name]

    def propose(self, name: str, data: bytes) -> int | None:
        index = self.nodes[name].propose(data)
        self.collect(name)
        return index

    def snapshot(self, name: str) -> bytes:
        """What a state machine writes into a snapshot."""
        return b",".join(self.machines[name])

    def compact(self, name: str) -> None:
        node = self.nodes[name]
        node.compact(node.applied_index, self.snapshot(name))
        self.collect(name)
