import json

import pytest
from tests.nameserver.world import table, told

from epochmq.model.topic import BrokerData, QueueData, TopicRouteData
from epochmq.nameserver.route_table import RouteTable
from epochmq.nameserver.routes import Routes, keep_zone


def build(conf: dict[str, str] | None = None) -> tuple[RouteTable, Routes]:
    routes_table = table()
    routes = Routes(routes_table, (conf or {}).get)
    routes_table.register(told(0), 0)
    return routes_table, routes


def test_both_dialects_and_nothing_for_unknown_topics() -> None:
    _, routes = build()
    quoted, bare = routes.encoded("A", bare=False), routes.encoded("A", bare=True)
    assert quoted is not None
    assert bare is not None
    assert json.loads(quoted)["brokerDatas"][0]["brokerAddrs"] == {"0": "10.0.0.0:10911"}
    assert b'{0:"10.0.0.0:10911"}' in bare
    assert routes.encoded("Z", bare=False) is None
    assert routes.encoded_for_zone("Z", "z", bare=False) is None


def test_an_encoded_route_is_kept_until_something_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    routes_table, routes = build()
    first = routes.encoded("A", bare=False)
    other = routes.encoded("B", bare=False)
    asked: list[str] = []
    original = routes_table.route
    monkeypatch.setattr(
        routes_table, "route", lambda topic, **how: (asked.append(topic), original(topic, **how))[1]
    )
    routes_table.register(told(0), 1)  # says nothing new
    assert routes.encoded("A", bare=False) is first
    assert asked == []
    routes_table.delete_topic("A")
    assert routes.encoded("A", bare=False) is None
    assert routes.encoded("B", bare=False) is other
    routes_table.register(told(1), 2)  # another address in all routes of the group
    assert b'"1":"10.0.0.1:10911"' in (routes.encoded("B", bare=False) or b"")


def test_the_order_configuration_is_put_in() -> None:
    _, routes = build({"A": "b:4"})
    assert b'"orderTopicConf":"b:4"' in (routes.encoded("A", bare=True) or b"")
    assert b"orderTopicConf" not in (routes.encoded("B", bare=True) or b"")


def test_a_zone_sees_its_own_brokers_and_groups_without_a_master() -> None:
    names = ("here", "there", "nowhere", "headless")
    groups = [BrokerData("c", name, {0: f"{name}:1"}) for name in names]
    groups[0].zone_name, groups[1].zone_name = "Z1", "z2"
    groups[3].broker_addrs = {1: "headless:1"}
    route = TopicRouteData(
        [QueueData(name) for name in names], groups, {f"{name}:1": ["f"] for name in names}
    )
    keep_zone(route, "z1")
    assert [group.broker_name for group in route.broker_datas] == ["here", "headless"]
    assert [queues.broker_name for queues in route.queue_datas] == ["here", "headless"]
    assert route.filter_server_table == {"here:1": ["f"], "headless:1": ["f"]}


def test_a_zones_route_in_both_dialects() -> None:
    routes_table, routes = build()
    routes_table.register(told(0, zone="z"), 0)
    assert b'{"0":"' in (routes.encoded_for_zone("A", "z", bare=False) or b"")
    assert b'{0:"' in (routes.encoded_for_zone("A", "z", bare=True) or b"")
    assert b'"brokerDatas":[]' in (routes.encoded_for_zone("A", "y", bare=True) or b"")
