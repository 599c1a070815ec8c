"""A Raft follower whose tail is being replaced loses its power in the middle of that write.

Nothing is forged: a leader is cut off, its followers elect another one, and when the old leader
follows it, its machine loses power. Whatever reached the device, no node may apply what was never
decided, and the group must go on with two of three nodes.
"""

import pytest
from sim.kernel.disk import PowerCut, SimDisk
from tests.raft.cluster import Cluster

from epochmq.raft.raft_node import Apply


class PowerAtLargeWrite:
    """Takes the power of one disk right after its first write of at least so many bytes."""

    def __init__(self, disk: SimDisk, size: int) -> None:
        self._disk = disk
        self._size = size
        disk.on_operation = self._operation

    def _operation(self, number: int, what: str) -> None:
        words = what.split()
        if words[0] == "write" and int(words[2].split("+")[1]) >= self._size:
            self._disk.stop_at = number


def play(size: int, seed: int) -> None:
    group = Cluster("n0", "n1", "n2")
    group.elect("n0")
    for number in range(3):
        group.propose("n0", b"first%d" % number + bytes(140))
    group.run(500)
    group.isolate("n0")
    for number in range(4):
        group.propose("n0", b"lost%d" % number + bytes(size))
    group.run(4000)
    leader = group.leader.core.own_id
    for number in range(3):
        group.propose(leader, b"decided%d" % number + bytes(700))
    group.settle()
    PowerAtLargeWrite(group.disks["n0"], 1500)
    group.heal()
    with pytest.raises(PowerCut):
        group.run(3000)
    group.crash("n0", seed)
    group.waiting.clear()
    group.start("n0")
    group.run(3000)
    applied: dict[int, bytes] = {}
    for _name, effect in group.effects:
        if isinstance(effect, Apply):
            assert applied.setdefault(effect.index, effect.data) == effect.data
    other = next(name for name in ("n1", "n2") if name != group.leader.core.own_id)
    group.crash(other)
    group.run(15_000)
    index = group.propose(group.leader.core.own_id, b"last")
    group.run(500)
    assert group.nodes["n0"].applied_index == index


@pytest.mark.parametrize("size", [60, 100, 120, 140, 180, 220, 300, 420])
def test_the_group_agrees_and_goes_on(size: int) -> None:
    for seed in range(12):
        play(size, seed)
