"""SQL92 filters: switched off by default, compiled once, alive as long as the group wants them."""

import json

import pytest
from tests.broker.fake_disk import FakeDisk

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.consume.consumer_filters import KEEP_DEAD_MS, ConsumerFilters
from epochmq.broker.state.saved_files import load_table
from epochmq.model.group import SubscriptionData, build

WALL = 1_700_000_000_000


def sql(expression: str, version: int = 1, topic: str = "T") -> SubscriptionData:
    return build(topic, expression, "SQL92", version)


def code_of(caught: pytest.ExceptionInfo[Refused]) -> int:
    return caught.value.code


def test_off_by_default() -> None:
    filters = ConsumerFilters()
    with pytest.raises(Refused, match="does not support") as caught:
        filters.compiled("a > 1")
    assert code_of(caught) == 1
    with pytest.raises(Refused) as caught:
        filters.matcher("g", sql("a > 1"))
    assert code_of(caught) == 1


def test_compiled_once() -> None:
    filters = ConsumerFilters(enabled=True)
    matcher = filters.compiled("a > 1")
    assert matcher({"a": "2"}) is True
    assert matcher({"a": "1"}) is False
    assert filters.compiled("a > 1") is matcher


@pytest.mark.parametrize(("expression", "kind"), [("a >", "SQL92"), ("a > 1", "REGEX")])
def test_not_to_be_compiled(expression: str, kind: str) -> None:
    with pytest.raises(Refused) as caught:
        ConsumerFilters(enabled=True).compiled(expression, kind)
    assert code_of(caught) == 23


def test_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPILED_FILTERS_MAX", 2)
    filters = ConsumerFilters(enabled=True)
    for expression in ("a > 1", "a > 2", "a > 1", "a > 3"):
        filters.compiled(expression)
    assert list(filters._compiled) == ["a > 1", "a > 3"]


def test_register_and_pull() -> None:
    filters = ConsumerFilters(enabled=True)
    with pytest.raises(Refused) as caught:
        filters.matcher("g", sql("a > 1"))
    assert code_of(caught) == 27
    filters.register("g", [sql("a > 1", 5), build("U", "tag")], WALL)
    assert filters.matcher("g", sql("a > 1", 5))({"a": "7"}) is True
    with pytest.raises(Refused) as caught:
        filters.matcher("g", sql("a > 1", 6))
    assert code_of(caught) == 28
    assert set(filters.table) == {"T"}
    assert filters.dirty


def test_newer_versions_replace() -> None:
    filters = ConsumerFilters(enabled=True)
    filters.register("g", [sql("a > 1", 5)], WALL)
    filters.register("g", [sql("a > 9", 4)], WALL)
    found = filters.get("T", "g")
    assert found is not None
    assert found.expression == "a > 1"
    filters.register("g", [sql("a > 9", 6)], WALL + 5)
    found = filters.get("T", "g")
    assert found is not None
    assert (found.expression, found.client_version, found.born_time) == ("a > 9", 6, WALL)


def test_an_expression_that_does_not_compile_takes_the_old_one_away() -> None:
    filters = ConsumerFilters(enabled=True)
    filters.register("g", [sql("a > 1", 5)], WALL)
    filters.register("g", [sql("a >", 6)], WALL)
    assert filters.get("T", "g") is None
    assert filters.table == {}
    filters.register("g", [sql("a >", 7)], WALL)


def test_death_and_new_life() -> None:
    filters = ConsumerFilters(enabled=True)
    filters.register("g", [sql("a > 1", 5), sql("b > 1", 5, "U")], WALL)
    filters.register("h", [sql("a > 1", 5)], WALL)
    filters.register("g", [sql("b > 1", 5, "U")], WALL + 1)
    found = filters.get("T", "g")
    assert found is not None
    assert found.dead_time == WALL + 1
    filters.register("g", [sql("a > 1", 4)], WALL + 2)
    assert found.dead_time == WALL + 1
    filters.register("g", [sql("a > 1", 5)], WALL + 2)
    assert found.dead_time == 0
    filters.bury(lambda group: group == "h", WALL + 3)
    assert filters.clean(WALL + KEEP_DEAD_MS + 2) == 1
    assert filters.clean(WALL + KEEP_DEAD_MS + 3) == 1
    assert set(filters.table) == {"T"}
    assert set(filters.table["T"]) == {"h"}


def test_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FILTERS_MAX", 1)
    filters = ConsumerFilters(enabled=True)
    filters.register("g", [sql("a > 1"), sql("a > 1", topic="U")], WALL)
    assert set(filters.table) == {"T"}


def test_file_round_trip() -> None:
    filters = ConsumerFilters(enabled=True)
    filters.register("g", [sql("a > 1", 5)], WALL)
    content = json.loads(filters.encode())
    row = content["filterDataByTopic"]["T"]
    assert row["topic"] == "T"
    assert row["groupFilterData"]["g"] == {
        "consumerGroup": "g",
        "topic": "T",
        "expression": "a > 1",
        "expressionType": "SQL92",
        "bornTime": WALL,
        "deadTime": 0,
        "clientVersion": 5,
    }
    again = ConsumerFilters(enabled=True)
    again.load(content)
    assert again.table == filters.table


def test_javas_file_with_bloom_filters() -> None:
    text = b"""{"filterDataByTopic":{"T":{"groupFilterData":{"g":{"bloomFilterData":
    {"bitNum":128,"bitPos":[1,2]},"bornTime":1700000000000,"clientVersion":5,"consumerGroup":"g",
    "dead":false,"deadTime":0,"expression":"a > 1","expressionType":"SQL92","topic":"T"}},
    "topic":"T"},"U":{"groupFilterData":{},"topic":"U"}}}"""
    filters = ConsumerFilters(enabled=True)
    assert load_table(FakeDisk({ConsumerFilters.file: text}), filters)
    assert set(filters.table) == {"T"}
    filters.all_dead(WALL + 60_000)
    found = filters.get("T", "g")
    assert found is not None
    assert found.dead_time == WALL + 30_000
    filters.all_dead(WALL + 90_000)
    assert found.dead_time == WALL + 30_000
