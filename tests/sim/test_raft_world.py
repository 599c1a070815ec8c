"""The world of Raft groups: the same seed is the same history, and every kind of fault comes."""

import os
import subprocess
import sys

from sim.kernel.plan import Plan
from sim.raft.raft_world import KINDS, RaftHistory
from sim.tools.campaign import Summary
from sim.tools.worlds import run

COVERED = (
    "elected",
    "read",
    "restored",
    "compacted",
    "transfer",
    "add_learner",
    "add_voter",
    "remove",
    "lost_disk",
)
PATH = os.pathsep.join(sys.path)
HASHES = "from sim.kernel.plan import Plan; from sim.tools.worlds import run\n" + (
    "print([run(Plan('raft', seed)).digest for seed in range(6)])"
)


def test_a_seed_twice_is_one_history() -> None:
    for seed in range(5):
        plan = Plan("raft", seed)
        assert run(plan).digest == run(plan).digest


def test_other_hash_seeds_change_nothing() -> None:
    """INV-90."""
    outputs = [
        subprocess.run(
            [sys.executable, "-c", HASHES],
            env={
                **os.environ,
                "PYTHONHASHSEED": hash_seed,
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]


def test_every_fault_and_every_feature_comes() -> None:
    """INV-91."""
    summary = Summary()
    for seed in range(200, 260):
        summary.add(run(Plan("raft", seed)))
    assert not summary.failures
    marks = set(summary.marks)
    assert {f"fault.{kind}" for kind in (*KINDS, "lose_disk")} <= marks
    assert {f"covered.{name}" for name in COVERED} <= marks
    assert {"net.loss", "net.double", "died.SyncFailed"} <= marks


def test_faults_can_be_left_out() -> None:
    whole = RaftHistory(Plan("raft", 7)).schedule()
    assert len(whole) > 1
    assert RaftHistory(Plan("raft", 7, keep=(0,))).schedule() == whole[:1]
    assert RaftHistory(Plan("raft", 7, keep=())).schedule() == []
