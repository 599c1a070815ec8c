"""A node whose disk is empty: it has no vote until somebody who knows the group confirms it.

An empty disk may be that of a new group, or it may have replaced one that held votes and entries
on which the group relies; the node cannot tell. So it draws an incarnation, a word that belongs to
this disk, and waits. Either the group's membership names this incarnation (see
`membership.reborn`), or all configured members turn out to be empty and found a new group.

To found, each member tells all others which incarnations it has seen. Who was told to, and has
heard the same complete list from everybody, makes that list the first membership. A member with
data never tells such a list; so nobody is founded anew while one configured member has data.
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
    """What the configuration says of the group."""

    names: tuple[str, ...]
    """All its members, this one among them."""
    new_group: bool = False
    """The operator said that there is no such group yet: this node may found it."""


def draw_incarnation(rng: Rng) -> str:
    """A word that no other disk has."""
    return f"{rng.randrange(1 << 64):016x}"


class Joining:
    """What an empty node knows of the other configured members."""

    def __init__(self, own_id: str, incarnation: str, configured: Configured) -> None:
        self._own_id = own_id
        self._configured = configured
        self._seen = {own_id: incarnation}
        self._lists: dict[str, Incarnations] = {}
        """By member: the list that it told last."""

    @property
    def others(self) -> tuple[str, ...]:
        """Whom to tell."""
        return tuple(name for name in self._configured.names if name != self._own_id)

    @property
    def seen(self) -> Incarnations:
        """(member, incarnation) of all members known to be empty."""
        return tuple(sorted(self._seen.items()))

    def heard(self, join: Join) -> bool:
        """Note what another empty member tells; whether the own list changed."""
        if join.sender not in self._configured.names:
            return False
        before = self._seen.get(join.sender)
        self._seen[join.sender] = join.incarnation
        self._lists[join.sender] = join.seen
        return before != join.incarnation

    def founders(self) -> VotersAndLearners | None:
        """The first membership of a new group; None while that is not certain, or not wanted."""
        everybody = len(self._seen) == len(self._configured.names)
        agreed = all(self._lists.get(name) == self.seen for name in self.others)
        if not (self._configured.new_group and everybody and agreed):
            return None
        return VotersAndLearners(tuple(sorted(self._configured.names)), incarnations=self.seen)


class Confirmation:
    """Whether the group knows this node's disk, and what is done while it does not."""

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
        """When `tick` has something to do, or `other` if that is earlier."""
        return other if self.given else min(self._tell_at, other)

    def tick(self, now: int, every_ms: int) -> None:
        """Tell the other configured members now and then that there is nothing on this disk."""
        if not self.given and now >= self._tell_at:
            self._tell_at = now + every_ms
            self._tell_empty()

    def _tell_empty(self) -> None:
        for node in self._joining.others:
            self._send(Join(self._own_id, node, 0, self.incarnation, self._joining.seen))

    def on_join(self, join: Join) -> None:
        """Another member is empty, too; or is one of the founders and does not know it yet."""
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
        """A group was founded, maybe with this disk among the first ones."""
        own = welcome.members.incarnation_of(self._own_id)
        if not self.given and own == self.incarnation and self._log.snapshot.index == 0:
            self._found(welcome.members)

    def _found(self, members: VotersAndLearners) -> None:
        """The group begins, with these members and no entry; they are told at once."""
        self._membership.founded(members)
        self._log.found(members)
        self.given = True
        for node in self._joining.others:
            self._send(Welcome(self._own_id, node, 0, members))

    def look(self) -> None:
        """See whether the group knows this disk: what is committed cannot be taken back."""
        committed = self._membership.at(self._log.commit)
        if not self.given and committed.incarnation_of(self._own_id) == self.incarnation:
            self.given = True
