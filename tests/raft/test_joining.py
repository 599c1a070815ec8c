"""Empty disks: a new group is founded once, and who lost its disk has no vote until confirmed."""

from dataclasses import replace

import msgspec
import pytest
from tests.raft.cluster import Cluster

from epochmq.base.errors import EpochError, UsageError
from epochmq.raft.joining import Configured, Joining
from epochmq.raft.membership import ChangeKind, changed, reborn
from epochmq.raft.raft_messages import (
    AppendEntries,
    AppendReply,
    EntryKind,
    HeartbeatReply,
    Join,
    LogEntry,
    VotersAndLearners,
    decode,
    decode_members,
    encode,
    encode_members,
)

NAMES = ("n0", "n1", "n2")
THREE = VotersAndLearners(NAMES)


def leads(group: Cluster) -> str | None:
    try:
        return group.leader.core.own_id
    except EpochError:
        return None


# Founding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("founders", [("n1",), NAMES])
def test_a_group_is_founded_when_all_its_members_are_there(founders: tuple[str, ...]) -> None:
    group = Cluster(*NAMES, empty=True)
    group.start_empty("n0", new_group="n0" in founders)
    group.start_empty("n1", new_group="n1" in founders)
    group.run(20_000)
    assert leads(group) is None, "two of three are no reason to found a group"
    assert not any(node.confirmed for node in group.nodes.values())
    group.start_empty("n2", new_group="n2" in founders)
    group.run(5_000)
    leader = leads(group)
    assert leader is not None
    group.propose(leader, b"x")
    group.run(1_000)
    for name in NAMES:
        assert group.nodes[name].confirmed
        assert group.nodes[name].members.voters == NAMES
        assert group.machines[name] == [b"x"]


def test_without_permission_nothing_is_founded() -> None:
    group = Cluster(*NAMES, empty=True)
    for name in NAMES:
        group.start_empty(name)
    group.run(60_000)
    assert leads(group) is None
    assert [node.term for node in group.nodes.values()] == [0, 0, 0]


def test_founders_that_crash_at_once_are_founded_all_the_same() -> None:
    """The incarnation is on the disk before anybody hears of it."""
    group = Cluster(*NAMES, empty=True)
    for name in NAMES:
        group.start_empty(name, new_group=True)
    words = {name: group.nodes[name].core.confirmation.incarnation for name in NAMES}
    for name in NAMES:
        group.tick(name)
    while not any(node.confirmed for node in group.nodes.values()):
        group.hand_over(group.waiting.pop(0)[1])
    group.waiting.clear()
    for name in NAMES:
        group.crash(name)
        group.start_empty(name)
    assert {name: group.nodes[name].core.confirmation.incarnation for name in NAMES} == words
    group.run(5_000)
    assert leads(group) is not None
    assert all(node.confirmed for node in group.nodes.values())


def join(sender: str, word: str, *seen: tuple[str, str]) -> Join:
    return Join(sender, "n0", 0, word, tuple(sorted(seen)))


def test_all_must_have_seen_the_same() -> None:
    joining = Joining("n0", "a", Configured(NAMES, new_group=True))
    everything = (("n0", "a"), ("n1", "b"), ("n2", "c"))
    assert joining.heard(join("n1", "b", *everything))
    assert joining.founders() is None
    assert joining.heard(join("n2", "c", ("n1", "b"), ("n2", "c")))
    assert joining.founders() is None, "n2 has not seen n0"
    assert not joining.heard(join("n2", "c", *everything))
    assert joining.founders() == VotersAndLearners(NAMES, incarnations=everything)
    assert joining.heard(join("n1", "d", ("n1", "d")))
    assert joining.founders() is None, "n1 lost its disk once more"
    assert not joining.heard(join("n9", "e", *everything))


def test_only_the_operator_founds() -> None:
    joining = Joining("n0", "a", Configured(NAMES))
    everything = (("n0", "a"), ("n1", "b"), ("n2", "c"))
    joining.heard(join("n1", "b", *everything))
    joining.heard(join("n2", "c", *everything))
    assert joining.founders() is None


# A lost disk ----------------------------------------------------------------------------------


@pytest.mark.parametrize("permission", [False, True])
def test_a_committed_command_outlives_one_lost_disk(permission: bool) -> None:
    """n0 and n1 decide without n2; n0 crashes, n1 loses its disk, n1 and n2 start.

    The permission to found a group may have stayed in the configuration.
    """
    group = Cluster(*NAMES)
    group.elect("n0")
    group.crash("n2")
    group.propose("n0", b"decided")
    group.run(500)
    assert group.machines["n1"] == [b"decided"]
    group.crash("n0")
    group.lose_disk("n1")
    group.start_empty("n1", new_group=permission)
    group.start_empty("n2", new_group=permission)
    group.run(60_000)
    assert leads(group) is None, "one disk that knows it is missing, and n1 has no vote"
    group.start_empty("n0", new_group=permission)
    group.run(10_000)
    assert leads(group) == "n0"
    assert [group.machines[name] for name in NAMES] == [[b"decided"]] * 3
    assert group.leader.members.voters == NAMES, "n1 votes again"
    assert group.nodes["n1"].confirmed
    group.crash("n0")
    group.run(10_000)
    leader = leads(group)
    assert leader in ("n1", "n2"), "n1's vote counts"
    index = group.propose(leader, b"more")
    group.run(500)
    assert group.nodes["n1"].applied_index == group.nodes["n2"].applied_index == index


def test_a_member_that_lost_its_disk_returns_by_a_snapshot_too() -> None:
    group = Cluster(*NAMES)
    group.elect("n0")
    for number in range(5):
        group.propose("n0", b"%d" % number)
    group.run(500)
    group.compact("n0")
    group.lose_disk("n1")
    group.start_empty("n1")
    group.run(5_000)
    assert group.leader.members.voters == NAMES
    assert group.machines["n1"] == group.machines["n0"]
    group.crash("n1")
    again = group.start_empty("n1")
    assert again.confirmed, "that it is confirmed is in its journal"
    group.lose_disk("n1")
    group.start_empty("n1")
    group.run(5_000)
    assert group.leader.members.voters == NAMES, "a second time as well"


def test_a_leader_that_loses_its_disk() -> None:
    group = Cluster(*NAMES)
    group.elect("n0")
    group.propose("n0", b"x")
    group.run(500)
    group.lose_disk("n0")
    group.start_empty("n0")
    group.run(10_000)
    assert leads(group) in ("n1", "n2")
    assert group.nodes["n0"].confirmed
    assert group.machines["n0"] == [b"x"]
    assert group.leader.members.voters == NAMES


# New voters -------------------------------------------------------------------------------------


def founded(*names: str) -> Cluster:
    """A new group, led by n0; the group knows each disk by its incarnation."""
    group = Cluster(*names, empty=True)
    for name in names:
        group.start_empty(name, new_group=True)
    group.run(5_000)
    assert leads(group) == "n0"
    return group


def change(group: Cluster, kind: ChangeKind, node: str) -> None:
    assert group.nodes["n0"].propose_change(kind, node) is not None
    group.collect("n0")
    group.run(500)


def goes_on(group: Cluster, *names: str) -> None:
    """A command is decided, and `names` apply it."""
    index = group.propose("n0", b"more")
    group.run(500)
    assert [group.nodes[name].applied_index for name in names] == [index] * len(names)


def test_a_member_removed_and_added_while_away_blocks_no_other() -> None:
    """A removed member's disk is forgotten, so all that it said as a voter counted for nothing."""
    group = founded(*NAMES)
    group.crash("n1")
    change(group, ChangeKind.REMOVE, "n1")
    change(group, ChangeKind.ADD_VOTER, "n1")
    assert group.leader.members.voters == ("n0", "n2"), "n1 is not there to vote"
    change(group, ChangeKind.ADD_LEARNER, "n2")
    goes_on(group, "n0", "n2")
    group.start_empty("n1")
    group.run(5_000)
    assert leads(group) == "n0"
    assert group.leader.members.voters == ("n0", "n1")
    assert group.leader.members.returning == ()
    goes_on(group, *NAMES)


@pytest.mark.parametrize("names", [("n0",), ("n0", "n1"), NAMES])
def test_a_voter_with_an_empty_disk_votes_once_it_has_caught_up(names: tuple[str, ...]) -> None:
    """All but a majority of the others may be away meanwhile."""
    group = Cluster(*names)
    group.elect("n0")
    goes_on(group, *names)
    for name in names[len(names) // 2 + 1 :]:
        group.crash(name)
    change(group, ChangeKind.ADD_VOTER, "n9")
    assert group.leader.members.voters == names
    assert group.leader.members.returning == ("n9",)
    with pytest.raises(UsageError):
        group.leader.propose_change(ChangeKind.ADD_VOTER, "n9")
    group.start_empty("n9")
    group.run(5_000)
    assert leads(group) == "n0"
    assert group.leader.members.voters == (*names, "n9")
    assert group.leader.members.returning == ()
    goes_on(group, "n0", "n9")


def test_a_learner_that_has_caught_up_is_made_a_voter_at_once() -> None:
    group = founded(*NAMES)
    change(group, ChangeKind.ADD_LEARNER, "n2")
    assert group.leader.members.learners == ("n2",)
    assert group.nodes["n0"].propose_change(ChangeKind.ADD_VOTER, "n2") is not None
    assert group.nodes["n0"].members.voters == NAMES


@pytest.mark.parametrize("kind", [ChangeKind.ADD_VOTER, ChangeKind.ADD_LEARNER, ChangeKind.REMOVE])
def test_what_becomes_of_a_voter_that_is_waited_for(kind: ChangeKind) -> None:
    waited_for = changed(VotersAndLearners(("n0",)), ChangeKind.ADD_VOTER, "n1", caught_up=False)
    assert waited_for == VotersAndLearners(("n0",), ("n1",), (), ("n1",))
    assert reborn(waited_for, "n1", "b").returning == ("n1",)
    after = changed(waited_for, kind, "n1")
    assert not after.returning
    assert ("n1" in after.voters, "n1" in after.learners) == (
        kind is ChangeKind.ADD_VOTER,
        kind is ChangeKind.ADD_LEARNER,
    )


# Memberships ------------------------------------------------------------------------------------


def test_a_learner_with_a_new_disk_stays_a_learner() -> None:
    members = VotersAndLearners(("n0",), ("n1",))
    assert reborn(members, "n1", "b") == VotersAndLearners(("n0",), ("n1",), (("n1", "b"),))
    voter = reborn(THREE, "n1", "b")
    assert reborn(voter, "n1", "c").returning == ("n1",), "it lost a second one while it learned"
    assert changed(voter, ChangeKind.ADD_VOTER, "n1") == VotersAndLearners(
        NAMES, (), (("n1", "b"),)
    )
    assert changed(voter, ChangeKind.REMOVE, "n1") == VotersAndLearners(("n0", "n2"))


def test_no_snapshot_is_made_before_the_members_are_known() -> None:
    group = Cluster(*NAMES, empty=True)
    node = group.start_empty("n1")
    node.core.step(
        AppendEntries("n0", "n1", 1, 0, 0, 1, (LogEntry(1, 1, EntryKind.DATA, b"x"),)), 0
    )
    group.tick("n1")
    assert node.applied_index == 1
    assert not node.compact(1, b"state")


# Other versions -------------------------------------------------------------------------------


class MembersBefore(msgspec.Struct, frozen=True, array_like=True):
    """As versions before wrote it."""

    voters: tuple[str, ...]
    learners: tuple[str, ...] = ()


def test_versions_before_read_what_this_one_writes_and_the_other_way_round() -> None:
    packed = encode_members(reborn(THREE, "n1", "b"))
    assert msgspec.msgpack.decode(packed, type=MembersBefore).learners == ("n1",)
    before = msgspec.msgpack.encode(MembersBefore(NAMES))
    assert decode_members(before) == THREE
    reply = encode(AppendReply("n1", "n0", 2, 7))
    values = msgspec.msgpack.decode(reply[1:])
    assert decode(reply[:1] + msgspec.msgpack.encode(values[:-1])) == AppendReply("n1", "n0", 2, 7)
    beat = encode(HeartbeatReply("n1", "n0", 2, 7, 8))
    values = msgspec.msgpack.decode(beat[1:])
    shorter = beat[:1] + msgspec.msgpack.encode(values[:-1])
    assert decode(shorter) == HeartbeatReply("n1", "n0", 2, 7, 8)


def test_the_journal_keeps_which_disk_it_is() -> None:
    group = Cluster(*NAMES, empty=True)
    word = group.start_empty("n1").core.confirmation.incarnation
    group.crash("n1")
    node = group.start_empty("n1")
    assert (node.core.confirmation.incarnation, node.confirmed) == (word, False)
    saved = node.core.saved()
    assert replace(saved, confirmed=True) != saved
