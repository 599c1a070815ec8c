"""Whole nodes: effects in their order, group commit, restarts."""

import pytest
from tests.raft.cluster import Cluster

from epochmq.base import limits
from epochmq.base.errors import PeerError, StoreDamaged, SyncFailed
from epochmq.raft.membership import ChangeKind
from epochmq.raft.raft_messages import VotersAndLearners
from epochmq.raft.raft_node import (
    Apply,
    BecameLeader,
    LostLeadership,
    MembersChanged,
    ReadFailed,
    ReadReady,
    Restore,
)

THREE = ("n0", "n1", "n2")


def effects_of(cluster: Cluster, name: str) -> list[object]:
    return [effect for who, effect in cluster.effects if who == name]


def test_leadership_is_told_of_after_everything_before_it_was_applied() -> None:
    cluster = Cluster(*THREE)
    cluster.elect("n0")
    cluster.propose("n0", b"a")
    cluster.settle()
    cluster.isolate("n0")
    cluster.effects.clear()
    cluster.elect("n1")
    assert effects_of(cluster, "n1") == [Apply(2, 1, b"a"), BecameLeader(2)]
    cluster.heal()
    cluster.run(200)
    assert LostLeadership(1) in effects_of(cluster, "n0")


def test_one_sync_covers_all_that_came_during_the_last_one() -> None:
    cluster = Cluster("n0")
    node = cluster.elect("n0")
    cluster.autosync = False
    node.propose(b"first")
    call = node.pending_sync()
    assert call is not None
    for number in range(100):
        node.propose(b"%d" % number)
    assert node.pending_sync() is None, "one at a time"
    call()
    node.synced(cluster.now)
    assert [effect.data for effect in node.pop_effects() if isinstance(effect, Apply)] == [b"first"]
    syncs = cluster.disks["n0"].operations
    assert cluster.sync("n0")
    assert cluster.disks["n0"].operations - syncs == 2, "one write, one sync"
    assert len(cluster.machines["n0"]) == 100


def test_nothing_is_acknowledged_before_it_is_on_the_disk() -> None:
    cluster = Cluster(*THREE)
    cluster.elect("n0")
    cluster.autosync = False
    cluster.propose("n0", b"a")
    cluster.settle()
    assert cluster.machines["n0"] == []
    assert cluster.sync("n1")
    cluster.settle()
    assert cluster.machines["n0"] == [], "committed by n1 and, not yet on its own disk, n0"
    assert cluster.sync("n0")
    assert cluster.machines["n0"] == [b"a"]


def test_a_failed_sync_is_told_to_whoever_runs_it() -> None:
    cluster = Cluster("n0")
    node = cluster.elect("n0")
    cluster.disks["n0"].sync_fails = lambda _path: True
    cluster.autosync = False
    node.propose(b"a")
    call = node.pending_sync()
    assert call is not None
    with pytest.raises(SyncFailed):
        call()


def test_reads_wait_for_the_round_and_fail_elsewhere() -> None:
    cluster = Cluster(*THREE)
    leader = cluster.elect("n0")
    cluster.effects.clear()
    leader.read_index(7, cluster.now)
    cluster.collect("n0")
    cluster.nodes["n1"].read_index(8, cluster.now)
    cluster.collect("n1")
    assert cluster.effects == [("n1", ReadFailed(8))]
    cluster.settle()
    assert effects_of(cluster, "n0") == [ReadReady(7)]


def test_reads_of_a_cut_off_leader_fail_when_it_steps_down() -> None:
    cluster = Cluster(*THREE)
    leader = cluster.elect("n0")
    cluster.isolate("n0")
    cluster.effects.clear()
    leader.read_index(7, cluster.now)
    cluster.run(1000)
    assert effects_of(cluster, "n0") == [ReadFailed(7), LostLeadership(1)]


def test_a_lease_rests_on_when_the_heartbeat_was_sent() -> None:
    cluster = Cluster(*THREE)
    leader = cluster.elect("n0")
    elected_at = cluster.now
    assert leader.lease_until_ms == elected_at + cluster.options.lease_ms
    cluster.run(250)
    assert leader.lease_until_ms == elected_at + 200 + cluster.options.lease_ms
    assert cluster.nodes["n1"].lease_until_ms == 0
    cluster.isolate("n0")
    cluster.run(900)
    assert leader.lease_until_ms <= elected_at + 250 + cluster.options.lease_ms
    cluster.run(200)
    assert leader.lease_until_ms == 0


def test_a_restart_brings_back_what_was_decided() -> None:
    cluster = Cluster(*THREE)
    cluster.elect("n0")
    for word in (b"a", b"b", b"c"):
        cluster.propose("n0", word)
    cluster.settle()
    for name in THREE:
        cluster.crash(name)
    for name in THREE:
        cluster.start(name)
    cluster.run(5000)
    assert set(map(tuple, cluster.machines.values())) == {(b"a", b"b", b"c")}


def test_a_snapshot_stands_for_the_log_across_a_restart() -> None:
    cluster = Cluster("n0")
    cluster.elect("n0")
    for number in range(200):
        cluster.propose("n0", b"x%d" % number)
    before = cluster.nodes["n0"].statistics()["journalBytes"]
    cluster.compact("n0")
    assert cluster.nodes["n0"].statistics()["journalBytes"] < before
    cluster.propose("n0", b"last")
    cluster.crash("n0")
    cluster.effects.clear()
    cluster.start("n0")
    first = cluster.effects[0][1]
    assert isinstance(first, Restore)
    assert first.index == 201
    cluster.elect("n0")
    assert cluster.machines["n0"][-1] == b"last"
    assert len(cluster.machines["n0"]) == 201


def test_a_node_behind_the_deleted_prefix_gets_the_snapshot() -> None:
    """dledger#275."""
    cluster = Cluster(*THREE)
    cluster.elect("n0")
    cluster.isolate("n2")
    for word in (b"a", b"b"):
        cluster.propose("n0", word)
    cluster.settle()
    cluster.compact("n0")
    cluster.heal()
    cluster.run(400)
    assert cluster.machines["n2"] == [b"a", b"b"]
    cluster.crash("n2")
    cluster.start("n2")
    assert cluster.machines["n2"] == [b"a", b"b"]


def test_members_are_told_when_they_change() -> None:
    cluster = Cluster(*THREE)
    cluster.elect("n0")
    cluster.add("n3", joins=True)
    cluster.nodes["n0"].propose_change(ChangeKind.ADD_LEARNER, "n3")
    cluster.run(400)
    assert MembersChanged(VotersAndLearners(THREE, ("n3",))) in effects_of(cluster, "n3")


def test_garbage_and_strangers_are_the_peers_fault() -> None:
    cluster = Cluster(*THREE)
    node = cluster.elect("n0")
    with pytest.raises(PeerError):
        node.receive(b"\x01garbage", cluster.now)
    cluster.nodes["n1"].tick(10_000)
    for effect in cluster.nodes["n1"].pop_effects():
        with pytest.raises(PeerError):
            cluster.nodes["n1"].receive(effect.data, cluster.now)  # type: ignore[union-attr]


def test_a_node_whose_journal_lost_entries_stops() -> None:
    cluster = Cluster(*THREE)
    cluster.elect("n0")
    cluster.propose("n0", b"a")
    cluster.settle()
    cluster.crash("n2")
    cluster.disks["n2"] = type(cluster.disks["n2"])()
    cluster.start("n2")
    with pytest.raises(StoreDamaged, match="lost data"):
        cluster.run(300)


def test_a_snapshot_that_could_not_be_sent_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster("n0")
    node = cluster.elect("n0")
    cluster.propose("n0", b"a")
    monkeypatch.setattr(limits, "RAFT_SNAPSHOT_BYTES_MAX", 10)
    assert not node.compact(node.applied_index, bytes(11))
    assert node.pending_sync() is None
    assert node.compact(node.applied_index, bytes(10))
    assert node.pending_sync() is not None
    assert node.statistics()["snapshot"] == 2


def test_a_node_tells_where_it_stands() -> None:
    cluster = Cluster(*THREE)
    cluster.elect("n0")
    follower = cluster.nodes["n1"]
    assert (follower.leader_id, follower.term, follower.is_leader) == ("n0", 1, False)
    assert follower.members == VotersAndLearners(THREE)
    assert not follower.transfer_to("n2")
    assert follower.propose(b"x") is None
