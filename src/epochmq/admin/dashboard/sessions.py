"""Sessions of browsers: identity, logins at clusters, the token against forged requests, expiry.

Times are monotonic ms. A session that has expired is never returned.
"""

import hmac
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from epochmq.admin.dashboard.cluster_client import ClusterClient
from epochmq.base.errors import EnvironmentFault

SESSIONS_MAX = 1_000


@dataclass(slots=True)
class BrowserSession:
    """One browser. `logins` has the client of each cluster at which its user logged in."""

    id: str = field(repr=False)
    csrf: str = field(repr=False)
    """Each request that changes something has to repeat this text, which other sites do not
    know.
    """
    begun_ms: int
    used_ms: int
    logins: dict[str, ClusterClient] = field(default_factory=dict)

    def has_token(self, text: str) -> bool:
        """Return whether `text` is the token of this session."""
        return hmac.compare_digest(text.encode(), self.csrf.encode())


class SessionTable:
    """All sessions.

    Args:
        token: returns a text that nobody can guess.
        idle_ms: a session ends if it is not used for this time.
        life_ms: a session ends after this time in any case.
    """

    def __init__(self, token: Callable[[], str], idle_ms: int, life_ms: int) -> None:
        self._token = token
        self._idle_ms = idle_ms
        self._life_ms = life_ms
        self._sessions: OrderedDict[str, BrowserSession] = OrderedDict()

    def find(self, session_id: str, now: int) -> BrowserSession | None:
        """Return the session and note that it is used; None if there is none, or it has ended."""
        session = self._sessions.get(session_id)
        if session is None or self._is_over(session, now):
            return None
        session.used_ms = now
        self._sessions.move_to_end(session_id)
        return session

    def is_alive(self, session: BrowserSession, now: int) -> bool:
        """Return whether a session has not ended. This does not count as use."""
        return self._sessions.get(session.id) is session and not self._is_over(session, now)

    def begin(self, now: int) -> BrowserSession:
        """Start a session without logins.

        When there are too many, the oldest without logins ends: strangers cannot end the sessions
        of users.

        Raises:
            EnvironmentFault: there are too many sessions with logins.
        """
        if len(self._sessions) >= SESSIONS_MAX:
            unused = next((each for each in self._sessions.values() if not each.logins), None)
            if unused is None:
                raise EnvironmentFault(f"{SESSIONS_MAX} users are logged in; try again later")
            del self._sessions[unused.id]
        session = BrowserSession(self._token(), self._token(), now, now)
        self._sessions[session.id] = session
        return session

    def renew(self, session: BrowserSession, now: int) -> BrowserSession:
        """Return a session with a new identity and the same logins.

        Called at a login: an identity that somebody else may have set gets no rights.
        """
        self._sessions.pop(session.id, None)
        fresh = self.begin(now)
        fresh.logins.update(session.logins)
        session.logins.clear()
        return fresh

    def end(self, session: BrowserSession) -> list[ClusterClient]:
        """End a session and return its clients, which the caller closes."""
        self._sessions.pop(session.id, None)
        clients = list(session.logins.values())
        session.logins.clear()
        return clients

    def end_expired(self, now: int) -> list[ClusterClient]:
        """End all sessions that are over, and return their clients, which the caller closes."""
        over = [each for each in self._sessions.values() if self._is_over(each, now)]
        return [client for session in over for client in self.end(session)]

    def clients_of(self, cluster: str) -> list[ClusterClient]:
        """Return the clients of all logins at a cluster, the latest used last."""
        return [each.logins[cluster] for each in self._sessions.values() if cluster in each.logins]

    def __len__(self) -> int:
        return len(self._sessions)

    def _is_over(self, session: BrowserSession, now: int) -> bool:
        return now - session.used_ms >= self._idle_ms or now - session.begun_ms >= self._life_ms
