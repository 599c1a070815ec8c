"""Who hears no majority must not lead: time that it stands still is not time to notice it."""

import pytest
from sim.kernel.plan import Plan
from sim.kernel.violation import Violation
from sim.kernel.world import MS, SECOND
from sim.raft.raft_world import RaftHistory, RaftProcess


def cut_off_leader(*off: str) -> tuple[RaftHistory, RaftProcess]:
    """A group without faults whose leader was cut off from all others a heartbeat ago."""
    history = RaftHistory(Plan("raft", 1, off, keep=()))
    world = history.world
    for host in world.hosts.values():
        world.start(host)
    assert world.run_until(10 * SECOND, history._leader_is_there)
    leader = history.leader()
    assert leader is not None
    assert len(history.bootstrap.voters) > 2
    for name in world.hosts:
        if name != leader.host.name:
            history.net.cut(leader.host.name, name)
            history.net.cut(name, leader.host.name)
    let_pass(history, history.options.heartbeat_ms * MS)
    assert leader.raft.core.leader is not None
    return history, leader


def let_pass(history: RaftHistory, time_us: int) -> None:
    history.world.run_until(history.world.time_us + time_us)


def stand_still(history: RaftHistory, process: RaftProcess) -> None:
    """For five seconds; what comes first afterwards is not its timer."""
    history.world.pause(process.host)
    history.world.after(0, "synced", lambda: None, process.host)
    let_pass(history, 5 * SECOND)
    history.world.resume(process.host)


def test_a_pause_is_no_time_to_notice_it() -> None:
    history, leader = cut_off_leader()
    stand_still(history, leader)
    assert leader.raft.core.leader is not None
    let_pass(history, 5 * SECOND)
    assert leader.raft.core.leader is None


@pytest.mark.parametrize("pause", [False, True])
def test_a_leader_without_a_majority_is_reported(pause: bool) -> None:
    history, leader = cut_off_leader("check_quorum")
    if pause:
        stand_still(history, leader)
    with pytest.raises(Violation, match="hears no majority"):
        let_pass(history, 5 * SECOND)
