"""Client tables: connected consumers and producers by group, heartbeats and subscriptions.

RocketMQ's ConsumerManager and ProducerManager. Methods return effects (`NotifyMembers`, `Expired`)
that the caller carries out. Subscriptions belong to the group, not to the member: the larger
version wins, and a topic that is missing in a heartbeat is removed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from epochmq.base import limits
from epochmq.model.group import SubscriptionData
from epochmq.wire.session import Session

# Group members -------------------------------------------------------------------------------
# One client in one group: its connection and the time of its last heartbeat.


EXPIRY_MS = 120_000
"""A client without a heartbeat for this time (ms) is removed (channelExpiredTimeout)."""

SCAN_MS = 10_000
"""Interval (ms) of the search for such clients."""


@dataclass(slots=True)
class ClientMember:
    session: Session
    client_id: str
    language: str
    version: int
    seen_at_ms: int
    seen_wall_ms: int = 0


@dataclass(frozen=True, slots=True)
class NotifyMembers:
    """Effect: tell these sessions that the members or subscriptions of `group` changed."""

    group: str
    sessions: tuple[Session, ...]


@dataclass(frozen=True, slots=True)
class Expired:
    """Effect: these sessions sent no heartbeat for too long and are to be closed."""

    sessions: tuple[Session, ...]
    notices: tuple[NotifyMembers, ...] = ()


# Consumer table ------------------------------------------------------------------------------


ACTIVELY = "CONSUME_ACTIVELY"
PASSIVELY = "CONSUME_PASSIVELY"
CLUSTERING = "CLUSTERING"
BROADCASTING = "BROADCASTING"
FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"


@dataclass(frozen=True, slots=True)
class Manner:
    """How a group consumes, from its last heartbeat."""

    consume_type: str = PASSIVELY
    message_model: str = CLUSTERING
    from_where: str = FROM_LAST_OFFSET


@dataclass(slots=True)
class ConsumerGroup:
    name: str
    manner: Manner = Manner()
    members: dict[int, ClientMember] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    fingerprint: int = 0
    """Fingerprint of the last heartbeat; 5.1 clients send only it while nothing changed."""

    @property
    def broadcasting(self) -> bool:
        return self.manner.message_model == BROADCASTING

    def client_ids(self) -> list[str]:
        """Return the client ids of all members; a client with two connections appears once."""
        return list(dict.fromkeys(member.client_id for member in self.members.values()))

    def find(self, client_id: str) -> ClientMember | None:
        for member in self.members.values():
            if member.client_id == client_id:
                return member
        return None

    def subscribe(self, wanted: Sequence[SubscriptionData]) -> bool:
        """Take over the subscriptions of a heartbeat; return whether the set of topics changed.

        A newer version of a known subscription replaces it but does not count as a change, so it
        does not make the whole group rebalance.
        """
        changed = False
        for new in wanted[: limits.SUBSCRIPTIONS_PER_GROUP_MAX]:
            old = self.subscriptions.get(new.topic)
            changed = changed or old is None
            if old is None or new.sub_version > old.sub_version:
                self.subscriptions[new.topic] = new
        topics = {subscription.topic for subscription in wanted}
        for topic in [topic for topic in self.subscriptions if topic not in topics]:
            del self.subscriptions[topic]
            changed = True
        return changed


class ConsumerManager:
    """The consumer groups with connected members, by name."""

    def __init__(self, *, expiry_ms: int = EXPIRY_MS) -> None:
        self.expiry_ms = expiry_ms
        self.groups: dict[str, ConsumerGroup] = {}
        self._groups_of: dict[int, set[str]] = {}

    def group(self, name: str) -> ConsumerGroup | None:
        return self.groups.get(name)

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        found = self.groups.get(group)
        return None if found is None else found.subscriptions.get(topic)

    def subscription_count(self, group: str) -> int:
        found = self.groups.get(group)
        return 0 if found is None else len(found.subscriptions)

    def find(self, group: str, client_id: str) -> ClientMember | None:
        found = self.groups.get(group)
        return None if found is None else found.find(client_id)

    def heartbeat(
        self,
        group: str,
        member: ClientMember,
        manner: Manner,
        subscriptions: Sequence[SubscriptionData] | None,
        *,
        notify: bool = True,
    ) -> list[NotifyMembers]:
        """Take a heartbeat of a member; with `subscriptions` None the subscriptions stay.

        If the member is new or the set of topics changed, returns a notice for all members, unless
        `notify` is False or the group is broadcasting.
        """
        session_id = member.session.id
        mine = self._groups_of.setdefault(session_id, set())
        if group not in mine and len(mine) >= limits.GROUPS_PER_SESSION_MAX:
            return []
        mine.add(group)
        found = self.groups.get(group)
        if found is None:
            found = self.groups[group] = ConsumerGroup(group)
        found.manner = manner
        changed = session_id not in found.members
        found.members[session_id] = member
        if subscriptions is not None:
            changed = found.subscribe(subscriptions) or changed
        return _notices(found) if changed and notify else []

    def unregister(
        self, group: str, session: Session, *, notify: bool = True
    ) -> list[NotifyMembers]:
        """Remove a member that unregisters; return the notices to send."""
        mine = self._groups_of.get(session.id)
        if mine is not None:
            mine.discard(group)
            if not mine:
                del self._groups_of[session.id]
        notices = self._remove(group, session.id)
        return notices if notify else []

    def session_closed(self, session: Session) -> list[NotifyMembers]:
        """Remove all memberships of a closed connection; return the notices to send."""
        notices: list[NotifyMembers] = []
        for group in sorted(self._groups_of.pop(session.id, ())):
            notices += self._remove(group, session.id)
        return notices

    def _remove(self, group: str, session_id: int) -> list[NotifyMembers]:
        found = self.groups.get(group)
        if found is None or found.members.pop(session_id, None) is None:
            return []
        if not found.members:
            del self.groups[group]
        return _notices(found)

    def expire(self, now: int) -> Expired:
        """Remove members without a heartbeat for `expiry_ms`; the caller closes their sessions."""
        dead = {
            member.session.id: member.session
            for group in self.groups.values()
            for member in group.members.values()
            if now - member.seen_at_ms > self.expiry_ms
        }
        notices: list[NotifyMembers] = []
        for session in dead.values():
            notices += self.session_closed(session)
        return Expired(tuple(dead.values()), tuple(_merge(notices, dead)))

    def groups_of_topic(self, topic: str) -> set[str]:
        """Return the groups that subscribe to `topic` now."""
        return {g.name for g in self.groups.values() if topic in g.subscriptions}


def _notices(group: ConsumerGroup) -> list[NotifyMembers]:
    if group.broadcasting or not group.members:
        return []
    return [NotifyMembers(group.name, tuple(member.session for member in group.members.values()))]


def _merge(notices: Iterable[NotifyMembers], dead: dict[int, Session]) -> list[NotifyMembers]:
    """Return the last notice of each group, without the sessions that are gone."""
    last = {notice.group: notice for notice in notices}
    alive = (
        NotifyMembers(n.group, tuple(session for session in n.sessions if session.id not in dead))
        for n in last.values()
    )
    return [notice for notice in alive if notice.sessions]


# Producer table ------------------------------------------------------------------------------
# Groups of connected producers, for transaction check back and for admins.


class ProducerManager:
    """The producer groups with connected members, by name and session id."""

    def __init__(self, *, expiry_ms: int = EXPIRY_MS) -> None:
        self.expiry_ms = expiry_ms
        self.groups: dict[str, dict[int, ClientMember]] = {}
        self._groups_of: dict[int, set[str]] = {}
        self._turn = 0

    def heartbeat(self, group: str, member: ClientMember) -> bool:
        """Take a heartbeat of a producer of `group`; return whether the member is new."""
        session_id = member.session.id
        mine = self._groups_of.setdefault(session_id, set())
        if group not in mine and len(mine) >= limits.GROUPS_PER_SESSION_MAX:
            return False
        mine.add(group)
        members = self.groups.setdefault(group, {})
        new = session_id not in members
        members[session_id] = member
        return new

    def unregister(self, group: str, session: Session) -> bool:
        """Remove a producer that unregisters; return whether it was registered."""
        mine = self._groups_of.get(session.id)
        if mine is not None:
            mine.discard(group)
            if not mine:
                del self._groups_of[session.id]
        return self._remove(group, session.id)

    def session_closed(self, session: Session) -> None:
        for group in self._groups_of.pop(session.id, ()):
            self._remove(group, session.id)

    def _remove(self, group: str, session_id: int) -> bool:
        members = self.groups.get(group)
        if members is None or members.pop(session_id, None) is None:
            return False
        if not members:
            del self.groups[group]
        return True

    def expire(self, now: int) -> Expired:
        """Remove members without a heartbeat for `expiry_ms`; the caller closes their sessions."""
        dead = {
            member.session.id: member.session
            for members in self.groups.values()
            for member in members.values()
            if now - member.seen_at_ms > self.expiry_ms
        }
        for session in dead.values():
            self.session_closed(session)
        return Expired(tuple(dead.values()))

    def members(self, group: str) -> list[ClientMember]:
        return list(self.groups.get(group, {}).values())

    def pick(self, group: str) -> Session | None:
        """Return one open session of the group, in turn; None if there is none."""
        open_ones = [m.session for m in self.members(group) if not m.session.closed]
        if not open_ones:
            return None
        self._turn += 1
        return open_ones[self._turn % len(open_ones)]

    def find(self, client_id: str) -> Session | None:
        """Return the session of a client by its id, in any group (request-reply)."""
        for members in self.groups.values():
            for member in members.values():
                if member.client_id == client_id:
                    return member.session
        return None
