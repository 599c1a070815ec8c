"""Who may take what, by what name servers said last, and who is left alone for a while."""

import pytest

from epochmq.base import limits
from epochmq.broker.escape.masters import AGAIN_MS, FORGET_MS, REFRESH_MS, REST_MS, Masters
from epochmq.model.names import DEFAULT_TOPIC
from epochmq.model.revive_routing import place_of


def test_what_is_known_stays_when_nobody_answers() -> None:
    masters = Masters()
    assert masters.wants(0) == (True, [])
    assert masters.wants(0) == (False, [])  # it is being asked
    masters.groups_came({"a": "a:1"}, 0)
    assert masters.next_deadline() == REFRESH_MS
    assert masters.wants(REFRESH_MS).groups
    masters.groups_failed(REFRESH_MS)
    assert masters.addresses == {"a": "a:1"}
    assert masters.next_deadline() == REFRESH_MS + AGAIN_MS


def test_a_topic_is_asked_for_once_it_is_wanted() -> None:
    masters = Masters()
    masters.groups_came({"a": "a:1", "b": "b:1"}, 0)
    assert not masters.want("T", 0)
    assert masters.queues("T") == {}
    assert masters.queues("U") == {}
    assert masters.wants(0).topics == ["T"]
    masters.topic_came("T", {"a": 4, "dead": 4, "b": 0}, 0)
    assert masters.want("T", 0)
    assert masters.queues("T") == {"a": 4}
    masters.topic_failed("T", 100)
    assert masters.queues("T") == {"a": 4}
    assert masters.wants(FORGET_MS).topics == []  # nobody wanted it any more
    masters.topic_came("T", {}, FORGET_MS)
    masters.topic_failed("T", FORGET_MS)
    assert not masters.want("T", FORGET_MS)


def test_what_is_being_asked_is_not_forgotten() -> None:
    masters = Masters()
    masters.want("T", 0)
    masters.wants(0)
    assert masters.wants(FORGET_MS).topics == []
    masters.topic_came("T", {}, FORGET_MS)
    masters.groups_came({}, FORGET_MS)
    assert masters.want("T", FORGET_MS)


def test_no_more_topics_than_routes_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ROUTES_WATCHED_MAX", 1)
    masters = Masters()
    masters.want("T", 0)
    assert not masters.want("U", 0)
    assert masters.wants(0).topics == ["T"]


def test_masters_with_the_default_topic_create_topics() -> None:
    masters = Masters()
    masters.groups_came({"a": "a:1"}, 0)
    assert masters.making(0) is None
    assert masters.wants(0).topics == [DEFAULT_TOPIC]
    masters.topic_came(DEFAULT_TOPIC, {"a": 8}, 0)
    assert masters.making(0) == ["a"]


def test_pins_name_living_masters() -> None:
    masters = Masters()
    masters.groups_came({"a": "a:1"}, 0)
    assert masters.at(place_of("a")) == "a"
    assert masters.at(place_of("b")) is None


def test_an_unreachable_master_rests_longer_each_time() -> None:
    masters = Masters()
    masters.groups_came({"a": "a:1"}, 0)
    masters.want("T", 0)
    masters.wants(0)
    masters.topic_came("T", {"a": 1}, 0)
    masters.failed("a", 0)
    assert masters.rests_until("a") == REST_MS
    assert masters.next_deadline() == AGAIN_MS  # it is asked who lives
    masters.failed("a", 1)  # those that were under way with it
    assert masters.rests_until("a") == REST_MS
    masters.failed("a", REST_MS)
    assert masters.rests_until("a") == REST_MS + 2 * REST_MS
    masters.groups_came({"a": "a:1"}, 0)
    assert masters.rests_until("a") > 0
    masters.groups_came({"a": "a:2"}, 0)  # another life
    assert masters.rests_until("a") == 0
    masters.failed("a", 0)
    masters.served("a")
    assert masters.rests_until("a") == 0
    masters.failed("a", 0)
    masters.groups_came({}, 0)
    assert masters.rests_until("a") == 0
