"""Who belongs to the group: one node joins or leaves at a time (thesis 4.1).

A new membership is in force from the moment its entry is in the log, committed or not; when the
entry is cut, the one before is in force again. So quorums of neighbours always overlap.
"""

from collections.abc import Iterable
from enum import Enum

from epochmq.base import limits
from epochmq.base.errors import UsageError
from epochmq.raft.raft_messages import EntryKind, LogEntry, VotersAndLearners, decode_members


class ChangeKind(Enum):
    """What may happen to one node."""

    ADD_VOTER = "add voter"
    """A new node, or a learner that is promoted; it learns until it has caught up."""
    ADD_LEARNER = "add learner"
    """A new node, or a voter that is demoted."""
    REMOVE = "remove"


def changed(
    members: VotersAndLearners, kind: ChangeKind, node: str, *, caught_up: bool = True
) -> VotersAndLearners:
    """The membership after one change; `UsageError` when it changes nothing or leaves nobody.

    Who is to vote and has not `caught_up` is among the `returning` until it has (thesis 4.2.1):
    the group may not know its disk, and what such a voter says counts for nothing. One of two
    voters like that, and the change that makes its disk known could never be committed.
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
    """The membership after `node` came back with another disk: it learns first.

    Its votes and entries are gone, so it is a new node under an old name. A voter is among the
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
        """The one in force."""
        return self._changes[-1][1] if self._changes else self._base

    @property
    def base(self) -> VotersAndLearners:
        """The one before all entries."""
        return self._base

    @property
    def changed_at(self) -> int:
        """Index of the newest change in the log; 0 when there is none."""
        return self._changes[-1][0] if self._changes else 0

    def at(self, index: int) -> VotersAndLearners:
        """The membership as of an index."""
        return next((m for at, m in reversed(self._changes) if at <= index), self._base)

    def appended(self, entries: Iterable[LogEntry]) -> bool:
        """Entries went into the log, replacing what was there; whether the membership changed."""
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
        """A snapshot stands for everything up to `index`."""
        self._base = self.at(index)
        self._changes = [change for change in self._changes if change[0] > index]

    def founded(self, members: VotersAndLearners) -> None:
        """The group begins with these members, whatever entries are here already."""
        self._base = members

    def restored(self, members: VotersAndLearners) -> None:
        """A leader's snapshot stands for everything."""
        self._base = members
        self._changes.clear()
