"""Subscription groups: creation on use, what is forbidden, the file."""

import json

import msgspec
import pytest

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.state.groups import GroupTable, check_group_config
from epochmq.model.data_version import DataVersion
from epochmq.model.group import SubscriptionGroupConfig

WALL = 1_700_000_000_000


def test_system_groups_are_there() -> None:
    table = GroupTable(auto_create=False)
    assert "TOOLS_CONSUMER" in table
    assert len(table) == 8
    assert not table.dirty


def test_find_creates_when_allowed() -> None:
    table = GroupTable()
    made = table.find("g", WALL)
    assert made is not None
    assert made.retry_max_times == 16
    assert table.find("g", WALL) is made
    assert table.get("g") is made
    assert table.version == DataVersion(0, 1, WALL)
    assert table.dirty


@pytest.mark.parametrize("name", ["", "a b", "x" * 200, "../up"])
def test_find_creates_no_bad_names(name: str) -> None:
    assert GroupTable().find(name, WALL) is None


def test_find_without_auto_create_makes_system_groups_only() -> None:
    table = GroupTable(auto_create=False)
    assert table.find("g", WALL) is None
    assert table.find("CID_RMQ_SYS_x", WALL) is not None


def test_number_of_groups_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    table = GroupTable()
    monkeypatch.setattr(limits, "GROUPS_MAX", len(table))
    assert table.find("g", WALL) is None
    with pytest.raises(Refused, match="already"):
        table.put(SubscriptionGroupConfig(group_name="g"), WALL)
    table.put(SubscriptionGroupConfig(group_name="TOOLS_CONSUMER"), WALL)


def test_put_and_delete() -> None:
    table = GroupTable()
    table.put(SubscriptionGroupConfig(group_name="g", retry_queue_nums=2), WALL)
    table.set_forbidden("g", "T", 4, WALL)
    assert table.delete("g", WALL)
    assert table.forbidden("g", "T") == 0
    version = table.version
    assert not table.delete("g", WALL)
    assert table.version == version


@pytest.mark.parametrize(
    "fields", [{"group_name": ""}, {"retry_queue_nums": -1}, {"retry_max_times": -2}]
)
def test_nonsense_is_refused(fields: dict[str, object]) -> None:
    config = msgspec.structs.replace(SubscriptionGroupConfig(group_name="g"), **fields)
    with pytest.raises(Refused):
        check_group_config(config)


def test_forbidden() -> None:
    table = GroupTable()
    assert table.forbidden("g", "T") == 0
    table.set_forbidden("g", "T", 4, WALL)
    table.set_forbidden("g", "U", 4, WALL)
    assert table.forbidden("g", "T") == 4
    assert table.forbidden("g", "V") == 0
    table.set_forbidden("g", "T", 0, WALL)
    # Upstream forgets the whole group here; the other topic stays forbidden with us.
    assert table.forbidden_table == {"g": {"U": 4}}
    table.set_forbidden("g", "U", 0, WALL)
    assert table.forbidden_table == {}


def test_forbidden_topics_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SUBSCRIPTIONS_PER_GROUP_MAX", 1)
    table = GroupTable()
    table.set_forbidden("g", "T", 4, WALL)
    with pytest.raises(Refused):
        table.set_forbidden("g", "U", 4, WALL)


def test_file_round_trip() -> None:
    table = GroupTable()
    table.put(SubscriptionGroupConfig(group_name="g", consume_enable=False), WALL)
    table.set_forbidden("g", "T", 4, WALL)
    content = json.loads(table.encode())
    assert content["subscriptionGroupTable"]["g"]["consumeEnable"] is False
    assert content["subscriptionGroupTable"]["g"]["groupRetryPolicy"] == {"type": "CUSTOMIZED"}
    assert content["forbiddenTable"] == {"g": {"T": 4}}
    again = GroupTable()
    again.load(content)
    assert again.table == table.table
    assert again.forbidden_table == table.forbidden_table
    assert again.version == table.version


def test_files_of_4_9_are_read() -> None:
    table = GroupTable()
    table.load({"subscriptionGroupTable": {"g": {"brokerId": 0, "retryMaxTimes": 3}}})
    assert table.table["g"].group_name == "g"
    assert table.table["g"].retry_max_times == 3
    assert "TOOLS_CONSUMER" in table


def test_a_replica_makes_nothing_by_itself() -> None:
    table = GroupTable()
    table.frozen = True
    before = table.version
    found = table.find("G", 0)
    assert found is not None
    assert "G" not in table
    assert table.version is before
