"""Who produces: groups of connected producers, for transaction checks and for admins."""

from epochmq.base import limits
from epochmq.broker.clients.group_members import EXPIRY_MS, ClientMember, Expired
from epochmq.wire.session import Session


class ProducerManager:
    """Producer groups, their members by session id."""

    def __init__(self, *, expiry_ms: int = EXPIRY_MS) -> None:
        self.expiry_ms = expiry_ms
        self.groups: dict[str, dict[int, ClientMember]] = {}
        self._groups_of: dict[int, set[str]] = {}
        self._turn = 0

    def heartbeat(self, group: str, member: ClientMember) -> bool:
        """Note that `member` produces for `group`; whether that is new."""
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
        """A producer takes its leave; whether it was there."""
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
        """Forget members not heard of for `expiry_ms`; their sessions are to be closed."""
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
        """One open session of the group, the next one at each call; None when there is none."""
        open_ones = [m.session for m in self.members(group) if not m.session.closed]
        if not open_ones:
            return None
        self._turn += 1
        return open_ones[self._turn % len(open_ones)]

    def find(self, client_id: str) -> Session | None:
        """The session of a client by its id, whatever its group (request and reply)."""
        for members in self.groups.values():
            for member in members.values():
                if member.client_id == client_id:
                    return member.session
        return None
