"""Producer groups: heartbeats, leaving, expiry, whom to ask."""

import pytest
from tests.broker.fake_session import FakeSession

from epochmq.base import limits
from epochmq.broker.consume.client_tables import EXPIRY_MS, ClientMember, ProducerManager


def member(session: FakeSession, client_id: str = "c", now: int = 0) -> ClientMember:
    return ClientMember(session, client_id, "JAVA", 401, now)


def test_heartbeat_and_leave() -> None:
    producers = ProducerManager()
    one = FakeSession(1)
    assert producers.heartbeat("p", member(one))
    assert not producers.heartbeat("p", member(one))
    producers.heartbeat("q", member(one))
    assert [m.client_id for m in producers.members("p")] == ["c"]
    assert producers.unregister("p", one)
    assert not producers.unregister("p", one)
    assert producers.members("p") == []
    assert producers.unregister("q", one)
    assert not producers.unregister("q", one)
    assert producers.groups == {}
    assert producers._groups_of == {}


def test_closed_sessions_go_from_all_groups() -> None:
    producers = ProducerManager()
    one, two = FakeSession(1), FakeSession(2)
    producers.heartbeat("p", member(one))
    producers.heartbeat("q", member(one))
    producers.heartbeat("p", member(two))
    producers.session_closed(one)
    producers.session_closed(one)
    assert set(producers.groups) == {"p"}


def test_expiry() -> None:
    producers = ProducerManager()
    one, two = FakeSession(1), FakeSession(2)
    producers.heartbeat("p", member(one, now=0))
    producers.heartbeat("p", member(two, now=10))
    assert producers.expire(EXPIRY_MS).sessions == ()
    assert producers.expire(EXPIRY_MS + 5).sessions == (one,)
    assert [m.session for m in producers.members("p")] == [two]


def test_pick_goes_round_open_sessions() -> None:
    producers = ProducerManager()
    assert producers.pick("p") is None
    one, two = FakeSession(1), FakeSession(2)
    producers.heartbeat("p", member(one))
    producers.heartbeat("p", member(two))
    assert {producers.pick("p"), producers.pick("p")} == {one, two}
    one.lost()
    assert producers.pick("p") is two


def test_find_by_client_id() -> None:
    producers = ProducerManager()
    one = FakeSession(1)
    producers.heartbeat("p", member(one, "me"))
    assert producers.find("me") is one
    assert producers.find("you") is None


def test_groups_of_a_session_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GROUPS_PER_SESSION_MAX", 1)
    producers = ProducerManager()
    one = FakeSession(1)
    assert producers.heartbeat("p", member(one))
    assert not producers.heartbeat("q", member(one))
    assert set(producers.groups) == {"p"}
