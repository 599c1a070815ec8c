"""Sessions of browsers: expiry, renewal, limits."""

from itertools import count

import pytest

from epochmq.admin.dashboard.cluster_client import ClusterClient
from epochmq.admin.dashboard.sessions import SESSIONS_MAX, SessionTable
from epochmq.base.errors import EnvironmentFault


def table(idle_ms: int = 100, life_ms: int = 1_000) -> SessionTable:
    numbers = count()
    return SessionTable(lambda: f"token-{next(numbers)}", idle_ms, life_ms)


def client(name: str = "c") -> ClusterClient:
    return ClusterClient(name, "127.0.0.1:1", None)


async def test_a_session_ends_when_it_is_not_used() -> None:
    sessions = table()
    session = sessions.begin(0)
    assert sessions.find(session.id, 99) is session
    assert sessions.find(session.id, 198) is session
    assert sessions.is_alive(session, 250)
    assert not sessions.is_alive(session, 298)
    assert sessions.find(session.id, 298) is None


async def test_looking_whether_it_is_alive_is_no_use() -> None:
    """A page that stays open gets events, and its login ends all the same."""
    sessions = table()
    session = sessions.begin(0)
    assert all(sessions.is_alive(session, now) for now in range(0, 100, 10))
    assert sessions.find(session.id, 100) is None


async def test_a_session_ends_after_its_life_however_much_it_is_used() -> None:
    sessions = table()
    session = sessions.begin(0)
    assert all(sessions.find(session.id, now) is session for now in range(0, 1_000, 50))
    assert sessions.find(session.id, 1_000) is None


async def test_the_clients_of_ended_sessions_are_returned_once() -> None:
    sessions = table()
    old, young = sessions.begin(0), sessions.begin(50)
    first, second = client(), client()
    old.logins["c"], young.logins["c"] = first, second
    assert sessions.clients_of("c") == [first, second]
    assert sessions.end_expired(120) == [first]
    assert sessions.end_expired(120) == []
    assert sessions.clients_of("c") == [second]
    assert sessions.end(young) == [second]
    assert len(sessions) == 0


async def test_a_renewed_session_has_another_identity_and_the_logins() -> None:
    sessions = table()
    old = sessions.begin(0)
    old.logins["c"] = mine = client()
    fresh = sessions.renew(old, 10)
    assert {fresh.id, fresh.csrf}.isdisjoint({old.id, old.csrf})
    assert sessions.find(old.id, 10) is None
    assert fresh.logins == {"c": mine}
    assert old.logins == {}


async def test_strangers_cannot_end_the_sessions_of_users() -> None:
    sessions = table()
    user = sessions.begin(0)
    user.logins["c"] = client()
    for _ in range(SESSIONS_MAX + 10):
        sessions.begin(1)
    assert len(sessions) == SESSIONS_MAX
    assert sessions.find(user.id, 2) is user


async def test_too_many_users_are_refused() -> None:
    sessions = table()
    for _ in range(SESSIONS_MAX):
        sessions.begin(0).logins["c"] = client()
    with pytest.raises(EnvironmentFault, match="try again later"):
        sessions.begin(0)


async def test_only_the_whole_token_counts() -> None:
    session = table().begin(0)
    assert session.has_token(session.csrf)
    assert not session.has_token("")
    assert not session.has_token(session.csrf[:-1])
    assert not session.has_token(session.id)
    assert not session.has_token("ä")
    assert session.id not in repr(session)
