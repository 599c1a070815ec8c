"""Memberships in the log."""

import pytest

from epochmq.base.errors import UsageError
from epochmq.raft.membership import ChangeKind, MembershipLog, changed
from epochmq.raft.raft_messages import EntryKind, LogEntry, VotersAndLearners, encode_members

BASE = VotersAndLearners(("n0", "n1", "n2"))
FOUR = VotersAndLearners(("n0", "n1", "n2", "n3"))
TWO = VotersAndLearners(("n0", "n1"))


def change(index: int, members: VotersAndLearners) -> LogEntry:
    return LogEntry(1, index, EntryKind.CHANGE, encode_members(members))


def plain(index: int) -> LogEntry:
    return LogEntry(1, index, EntryKind.DATA, b"")


def test_one_node_at_a_time() -> None:
    assert changed(BASE, ChangeKind.ADD_VOTER, "n3") == FOUR
    assert changed(BASE, ChangeKind.REMOVE, "n2") == TWO
    learning = changed(BASE, ChangeKind.ADD_LEARNER, "n2")
    assert learning == VotersAndLearners(("n0", "n1"), ("n2",))
    assert changed(learning, ChangeKind.ADD_VOTER, "n2") == BASE


@pytest.mark.parametrize(
    ("members", "kind", "node"),
    [
        (BASE, ChangeKind.ADD_VOTER, "n0"),
        (BASE, ChangeKind.REMOVE, "n9"),
        (VotersAndLearners(("n0",)), ChangeKind.REMOVE, "n0"),
        (VotersAndLearners(("n0",)), ChangeKind.ADD_LEARNER, "n0"),
        (VotersAndLearners(tuple(f"n{i:02}" for i in range(64))), ChangeKind.ADD_VOTER, "x"),
    ],
)
def test_changes_that_make_no_sense(
    members: VotersAndLearners, kind: ChangeKind, node: str
) -> None:
    with pytest.raises(UsageError):
        changed(members, kind, node)


def test_in_force_from_the_log_and_undone_with_it() -> None:
    membership = MembershipLog(BASE)
    assert not membership.appended([plain(1), plain(2)])
    assert membership.appended([change(3, FOUR)])
    assert (membership.now, membership.changed_at) == (FOUR, 3)
    assert membership.at(2) == BASE
    assert membership.appended([plain(2), plain(3)])
    assert (membership.now, membership.changed_at) == (BASE, 0)


def test_a_snapshot_keeps_the_newest_up_to_it() -> None:
    membership = MembershipLog(BASE, [change(1, FOUR), plain(2), change(3, TWO)])
    membership.compacted(2)
    assert (membership.at(2), membership.now) == (FOUR, TWO)
    membership.appended([plain(3)])
    assert membership.now == FOUR
    membership.restored(BASE)
    assert (membership.now, membership.changed_at) == (BASE, 0)
