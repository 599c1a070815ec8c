"""Consumer groups: who is told what when members and subscriptions change."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.broker.fake_session import FakeSession

from epochmq.base import limits
from epochmq.broker.consume.client_tables import (
    BROADCASTING,
    EXPIRY_MS,
    ClientMember,
    ConsumerGroup,
    ConsumerManager,
    Manner,
    NotifyMembers,
)
from epochmq.model.group import SubscriptionData, build

MANNER = Manner()


def member(session: FakeSession, client_id: str = "c", now: int = 0) -> ClientMember:
    return ClientMember(session, client_id, "JAVA", 401, now)


def subs(*topics: str, version: int = 1) -> list[SubscriptionData]:
    return [build(topic, "*", version=version) for topic in topics]


def test_new_members_are_told_to_all() -> None:
    consumers = ConsumerManager()
    one, two = FakeSession(1), FakeSession(2)
    assert consumers.heartbeat("g", member(one), MANNER, subs("T")) == [NotifyMembers("g", (one,))]
    assert consumers.heartbeat("g", member(one), MANNER, subs("T")) == []
    notices = consumers.heartbeat("g", member(two), MANNER, subs("T"))
    assert notices == [NotifyMembers("g", (one, two))]


def test_switched_off_and_broadcasting_groups_are_not_told() -> None:
    consumers = ConsumerManager()
    one = FakeSession(1)
    assert consumers.heartbeat("g", member(one), MANNER, subs("T"), notify=False) == []
    broadcast = Manner(message_model=BROADCASTING)
    assert consumers.heartbeat("h", member(one), broadcast, subs("T")) == []
    assert consumers.unregister("h", one) == []
    two = FakeSession(2)
    consumers.heartbeat("g", member(two), MANNER, subs("T"), notify=False)
    assert consumers.unregister("g", two, notify=False) == []


def test_subscriptions_by_version() -> None:
    group = ConsumerGroup("g")
    assert group.subscribe([build("T", "a", version=5)])
    assert not group.subscribe([build("T", "b", version=5)])
    assert group.subscriptions["T"].sub_string == "a"
    assert not group.subscribe([build("T", "b", version=6)])
    assert group.subscriptions["T"].sub_string == "b"
    assert group.subscribe(subs("T", "U"))
    assert group.subscribe(subs("U"))
    assert set(group.subscriptions) == {"U"}


def test_subscriptions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SUBSCRIPTIONS_PER_GROUP_MAX", 1)
    group = ConsumerGroup("g")
    group.subscribe(subs("T", "U"))
    assert set(group.subscriptions) == {"T"}


def test_heartbeat_without_subscriptions_leaves_them() -> None:
    consumers = ConsumerManager()
    one = FakeSession(1)
    consumers.heartbeat("g", member(one), MANNER, subs("T"))
    assert consumers.heartbeat("g", member(one), MANNER, None) == []
    assert consumers.subscription("g", "T") is not None
    assert consumers.subscription_count("g") == 1


def test_questions_about_nobody() -> None:
    consumers = ConsumerManager()
    assert consumers.group("g") is None
    assert consumers.subscription("g", "T") is None
    assert consumers.subscription_count("g") == 0
    assert consumers.find("g", "c") is None
    assert consumers.unregister("g", FakeSession()) == []


def test_find_and_client_ids() -> None:
    consumers = ConsumerManager()
    one, two = FakeSession(1), FakeSession(2)
    consumers.heartbeat("g", member(one, "x"), MANNER, subs("T"))
    consumers.heartbeat("g", member(two, "x"), MANNER, subs("T"))
    found = consumers.group("g")
    assert found is not None
    assert found.client_ids() == ["x"]
    first = consumers.find("g", "x")
    assert first is not None
    assert first.session is one
    assert consumers.find("g", "y") is None
    assert consumers.groups_of_topic("T") == {"g"}
    assert consumers.groups_of_topic("U") == set()


def test_leaving() -> None:
    consumers = ConsumerManager()
    one, two = FakeSession(1), FakeSession(2)
    for session in (one, two):
        consumers.heartbeat("g", member(session), MANNER, subs("T"))
    consumers.heartbeat("h", member(one), MANNER, subs("T"))
    assert consumers.unregister("g", one) == [NotifyMembers("g", (two,))]
    assert consumers.unregister("g", one) == []
    assert consumers.unregister("g", two) == []
    assert consumers.group("g") is None
    assert consumers.unregister("h", one) == []
    assert consumers._groups_of == {}


def test_a_closed_session_leaves_all_its_groups() -> None:
    consumers = ConsumerManager()
    one, two = FakeSession(1), FakeSession(2)
    for group in ("h", "g"):
        for session in (one, two):
            consumers.heartbeat(group, member(session), MANNER, subs("T"))
    assert consumers.session_closed(one) == [NotifyMembers("g", (two,)), NotifyMembers("h", (two,))]
    assert consumers.session_closed(one) == []


def test_expiry_notifies_only_the_remaining_clients() -> None:
    consumers = ConsumerManager()
    sessions = [FakeSession(n) for n in range(3)]
    for session in sessions:
        now = 100 if session.id == 2 else 0
        consumers.heartbeat("g", member(session, now=now), MANNER, subs("T"))
    consumers.heartbeat("h", member(sessions[0], now=0), MANNER, subs("T"))
    assert consumers.expire(EXPIRY_MS).sessions == ()
    expired = consumers.expire(EXPIRY_MS + 50)
    assert expired.sessions == (sessions[0], sessions[1])
    assert expired.notices == (NotifyMembers("g", (sessions[2],)),)
    last = consumers.expire(EXPIRY_MS + 150)
    assert last.sessions == (sessions[2],)
    assert last.notices == ()
    assert consumers.groups == {}


def test_groups_of_a_session_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GROUPS_PER_SESSION_MAX", 1)
    consumers = ConsumerManager()
    one = FakeSession(1)
    consumers.heartbeat("g", member(one), MANNER, subs("T"))
    assert consumers.heartbeat("h", member(one), MANNER, subs("T")) == []
    assert set(consumers.groups) == {"g"}


class Model(RuleBasedStateMachine):
    """Every change of the members of a group is told to exactly those who are in it then."""

    sessions = st.integers(0, 3)
    groups = st.sampled_from(["g", "h"])

    def __init__(self) -> None:
        super().__init__()
        self.consumers = ConsumerManager()
        self.sessions = [FakeSession(n) for n in range(4)]
        self.now = 0
        self.seen: dict[str, dict[int, int]] = {"g": {}, "h": {}}

    @rule(number=sessions, group=groups)
    def heartbeat(self, number: int, group: str) -> None:
        session = self.sessions[number]
        notices = self.consumers.heartbeat(
            group, member(session, str(number), self.now), MANNER, subs("T")
        )
        new = number not in self.seen[group]
        self.seen[group][number] = self.now
        self.check([group] if new else [], notices)

    @rule(number=sessions, group=groups)
    def leave(self, number: int, group: str) -> None:
        gone = self.seen[group].pop(number, None) is not None
        notices = self.consumers.unregister(group, self.sessions[number])
        self.check([group] if gone else [], notices)

    @rule(number=sessions)
    def close(self, number: int) -> None:
        changed = [g for g, seen in self.seen.items() if seen.pop(number, None) is not None]
        self.check(changed, self.consumers.session_closed(self.sessions[number]))

    @rule(step=st.sampled_from([1, EXPIRY_MS // 2]))
    def wait(self, step: int) -> None:
        self.now += step
        # A session that is silent in one group is cut, and so leaves the others too.
        late = {n for s in self.seen.values() for n, at in s.items() if self.now - at > EXPIRY_MS}
        changed = [group for group, seen in self.seen.items() if late & seen.keys()]
        for seen in self.seen.values():
            for number in late:
                seen.pop(number, None)
        expired = self.consumers.expire(self.now)
        assert {session.id for session in expired.sessions} == late
        self.check(changed, list(expired.notices))

    def check(self, changed: list[str], notices: list[NotifyMembers]) -> None:
        told = {notice.group: {s.id for s in notice.sessions} for notice in notices}
        assert told == {g: set(self.seen[g]) for g in changed if self.seen[g]}

    @invariant()
    def same_members(self) -> None:
        for group, seen in self.seen.items():
            found = self.consumers.group(group)
            assert (set(found.members) if found else set()) == set(seen)


TestModel = Model.TestCase
