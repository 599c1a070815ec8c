"""The membership of the group; one change adds or removes one node (thesis 4.1).

A new membership is in force as soon as its entry is in the log, committed or not. When the entry is
cut, the membership before it is in force again. Quorums of neighbouring memberships always overlap.
"""

from collections.abc import Iterable
from enum import Enum

from epochmq.base import limits
from epochmq.base.errors import UsageError
from epochmq.raft.raft_messages import EntryKind, LogEntry, VotersAndLearners, decode_members


class ChangeKind(Enum):
    """The change of one node."""

    ADD_VOTER = "add voter"
    """A new node, or a learner that is promoted. It is a learner until it has caught up."""
    ADD_LEARNER = "add learner"
    """A new node, or a voter that is demoted."""
    REMOVE = "remove"


def changed(
    members: VotersAndLearners, kind: ChangeKind, node: str, *, caught_up: bool = True
) -> VotersAndLearners:
    """Return the membership after one change.

    A node that shall vote and has not `caught_up` is one of the `returning` until it has (thesis
    4.2.1). The group may not know its disk, and then its answers do not count. With two voters of
    which one is such a node, the change that makes its disk known could never be committed.

    Raises:
        UsageError: nothing would change, no voter would be left, or the group would be too large.
    """
    voters, learners = set(members.voters) - {node}, set(members.learners) - {node}
    incarnations = dict(members.incarnations)
    returning = set(members.returning) - {node}
    if kind is ChangeKind.REMOVE:
        incarnations.pop(node, None)
    elif kind is ChangeKind.ADD_LEARNER:
        learners.add(node)
    elif caught_up or node in members.voters:
        voters.add(node)
    else:
        learners.add(node)
        returning.add(node)
    after = _members(voters, learners, incarnations, returning)
    if after == members:
        raise UsageError(f"nothing to do: {kind.value} {node}")
    if not voters:
        raise UsageError(f"cannot {kind.value} {node}: no voter would be left")
    if len(after.everyone) > limits.RAFT_MEMBERS_MAX:
        raise UsageError(f"a group has at most {limits.RAFT_MEMBERS_MAX} members")
    return after


def reborn(members: VotersAndLearners, node: str, incarnation: str) -> VotersAndLearners:
    """Return the membership after `node` came back with another disk: the node becomes a learner.

    Its votes and entries are lost, so it is a new node with an old name. A voter is one of the
    `returning` until it has caught up; `changed` then makes it a voter again.
    """
    returning = set(members.returning)
    if node in members.voters:
        returning.add(node)
    return _members(
        set(members.voters) - {node},
        set(members.learners) | {node},
        {**dict(members.incarnations), node: incarnation},
        returning,
    )


def _members(
    voters: set[str], learners: set[str], incarnations: dict[str, str], returning: set[str]
) -> VotersAndLearners:
    return VotersAndLearners(
        tuple(sorted(voters)),
        tuple(sorted(learners)),
        tuple(sorted(incarnations.items())),
        tuple(sorted(returning)),
    )


class MembershipLog:
    """The memberships in the log, newest last."""

    def __init__(self, base: VotersAndLearners, entries: Iterable[LogEntry] = ()) -> None:
        self._base = base
        self._changes: list[tuple[int, VotersAndLearners]] = []
        self.appended(entries)

    @property
    def now(self) -> VotersAndLearners:
        """The membership in force."""
        return self._changes[-1][1] if self._changes else self._base

    @property
    def base(self) -> VotersAndLearners:
        """The membership before all entries."""
        return self._base

    @property
    def changed_at(self) -> int:
        """Index of the newest change in the log; 0 if there is none."""
        return self._changes[-1][0] if self._changes else 0

    def at(self, index: int) -> VotersAndLearners:
        """Return the membership as of an index."""
        return next((m for at, m in reversed(self._changes) if at <= index), self._base)

    def appended(self, entries: Iterable[LogEntry]) -> bool:
        """Note entries that were appended or replaced others. Return whether the membership
        changed.
        """
        before = self.now
        for number, entry in enumerate(entries):
            if number == 0:
                self._cut(entry.index)
            if entry.kind is EntryKind.CHANGE:
                self._changes.append((entry.index, decode_members(entry.data)))
        return self.now != before

    def _cut(self, index: int) -> None:
        while self._changes and self._changes[-1][0] >= index:
            self._changes.pop()

    def compacted(self, index: int) -> None:
        """Note that a snapshot replaces all entries up to `index`."""
        self._base = self.at(index)
        self._changes = [change for change in self._changes if change[0] > index]

    def founded(self, members: VotersAndLearners) -> None:
        """Set the first members of the group; entries that are in the log stay."""
        self._base = members

    def restored(self, members: VotersAndLearners) -> None:
        """Replace all memberships by that of a leader's snapshot."""
        self._base = members
        self._changes.clear()
