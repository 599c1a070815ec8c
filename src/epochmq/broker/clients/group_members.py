"""One client in one group: whose connection it is and when it was last heard of."""

from dataclasses import dataclass

from epochmq.wire.session import Session

EXPIRY_MS = 120_000
"""A client that sent no heartbeat for this long is gone (channelExpiredTimeout)."""

SCAN_MS = 10_000
"""How often a broker looks for such clients."""


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
