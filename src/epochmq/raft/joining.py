"""Joining with an empty disk: such a node has no vote until the group confirms its disk.

An empty disk may belong to a new group. It may also replace a disk with votes and entries on which
the group depends. The node cannot know which. So it draws an incarnation, a random name of this
disk, and waits. Either the group's membership names this incarnation (see `membership.reborn`), or
all configured members have empty disks and found a new group.

To found a group, each member tells all others which incarnations it has seen. A member that is
allowed to found a group, and has received the same complete list from all members, makes that list
the first membership. A member with data never sends such a list. So no new group is founded while
one configured member has data.
"""

from collections.abc import Callable
from dataclasses import dataclass

from epochmq.base.ports import Rng
from epochmq.raft.membership import MembershipLog
from epochmq.raft.outbox import SavedState
from epochmq.raft.raft_log import RaftLog
from epochmq.raft.raft_messages import AnyMessage, Incarnations, Join, VotersAndLearners, Welcome


@dataclass(frozen=True, slots=True)
class Configured:
    """The members of the group according to the configuration."""

    names: tuple[str, ...]
    """Names of all members, including this one."""
    new_group: bool = False
    """The operator states that the group does not exist yet, so this node may found it."""


def draw_incarnation(rng: Rng) -> str:
    """Return a random name for a disk."""
    return f"{rng.randrange(1 << 64):016x}"


class Joining:
    """What a node with an empty disk knows about the other configured members."""

    def __init__(self, own_id: str, incarnation: str, configured: Configured) -> None:
        self._own_id = own_id
        self._configured = configured
        self._seen = {own_id: incarnation}
        self._lists: dict[str, Incarnations] = {}
        """By member: the last list that it sent."""

    @property
    def others(self) -> tuple[str, ...]:
        """Names of the other configured members."""
        return tuple(name for name in self._configured.names if name != self._own_id)

    @property
    def seen(self) -> Incarnations:
        """(member, incarnation) of all members whose disks are known to be empty."""
        return tuple(sorted(self._seen.items()))

    def heard(self, join: Join) -> bool:
        """Note a message of another empty member. Return whether the own list changed."""
        if join.sender not in self._configured.names:
            return False
        before = self._seen.get(join.sender)
        self._seen[join.sender] = join.incarnation
        self._lists[join.sender] = join.seen
        return before != join.incarnation

    def founders(self) -> VotersAndLearners | None:
        """Return the first membership of a new group; None while it is not certain or
        not allowed.
        """
        everybody = len(self._seen) == len(self._configured.names)
        agreed = all(self._lists.get(name) == self.seen for name in self.others)
        if not (self._configured.new_group and everybody and agreed):
            return None
        return VotersAndLearners(tuple(sorted(self._configured.names)), incarnations=self.seen)


class Confirmation:
    """Whether the group has confirmed this node's disk, and the messages until it has."""

    def __init__(
        self,
        own_id: str,
        saved: SavedState,
        configured: Configured | None,
        log: RaftLog,
        membership: MembershipLog,
        send: Callable[[AnyMessage], None],
        now: int,
    ) -> None:
        self.incarnation = saved.incarnation
        self.given = saved.confirmed
        """False: the disk was empty at the start, so this node has no vote yet."""
        self._own_id = own_id
        self._joining = Joining(own_id, saved.incarnation, configured or Configured((own_id,)))
        self._log = log
        self._membership = membership
        self._send = send
        self._tell_at = now

    def next_deadline(self, other: int) -> int:
        """Return when `tick` must be called, or `other` if that is earlier."""
        return other if self.given else min(self._tell_at, other)

    def tick(self, now: int, every_ms: int) -> None:
        """Tell the other configured members every `every_ms` that this disk is empty."""
        if not self.given and now >= self._tell_at:
            self._tell_at = now + every_ms
            self._tell_empty()

    def _tell_empty(self) -> None:
        for node in self._joining.others:
            self._send(Join(self._own_id, node, 0, self.incarnation, self._joining.seen))

    def on_join(self, join: Join) -> None:
        """Handle a message of a member with an empty disk.

        It may be a founder of the group that does not know yet that the group was founded.
        """
        if not self.given:
            if self._joining.heard(join):
                self._tell_empty()
            members = self._joining.founders()
            if members is not None:
                self._found(members)
        elif self._log.snapshot.index == 0:
            base = self._membership.base
            if join.incarnation and base.incarnation_of(join.sender) == join.incarnation:
                self._send(Welcome(self._own_id, join.sender, 0, base))

    def on_welcome(self, welcome: Welcome) -> None:
        """Handle the message that a group was founded, maybe with this disk."""
        own = welcome.members.incarnation_of(self._own_id)
        if not self.given and own == self.incarnation and self._log.snapshot.index == 0:
            self._found(welcome.members)

    def _found(self, members: VotersAndLearners) -> None:
        """Start the group with these members and no entries, and tell the other members."""
        self._membership.founded(members)
        self._log.found(members)
        self.given = True
        for node in self._joining.others:
            self._send(Welcome(self._own_id, node, 0, members))

    def look(self) -> None:
        """Check whether a committed membership names this disk."""
        committed = self._membership.at(self._log.commit)
        if not self.given and committed.incarnation_of(self._own_id) == self.incarnation:
            self.given = True
