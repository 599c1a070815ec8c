"""Reading topics."""

import json

import pytest
from tests.admin.world import OFFLINE, TOPIC, World

from epochmq.admin.mqadmin.mqadmin_topics import route_lines
from epochmq.model.topic import BrokerData, QueueData, TopicRouteData


def test_names(world: World) -> None:
    assert TOPIC in world.mqadmin("topicList").lines
    assert {"topic": TOPIC} in world.mqadmin("topicList", "-o", "json").rows


def test_names_with_groups(world: World) -> None:
    lines = world.mqadmin("topicList", "-c").lines
    assert lines[0] == f"{'#Cluster Name':<20}  {'#Topic':<48}  {'#Consumer Group':<48}"
    assert f"{'DefaultCluster':<20}  {TOPIC:<64}  {OFFLINE:<64}" in lines
    assert not any("%RETRY%" in line for line in lines)


def test_a_route_is_json_as_rocketmq_prints_it(world: World) -> None:
    tab = "\t"
    assert world.mqadmin("topicRoute", "-t", TOPIC).out == (
        f'{{\n{tab}"brokerDatas":[\n{tab * 2}{{\n'
        f'{tab * 3}"brokerAddrs":{{0:"{world.broker}"\n{tab * 3}}},\n'
        f'{tab * 3}"brokerName":"broker-a",\n{tab * 3}"cluster":"DefaultCluster",\n'
        f'{tab * 3}"enableActingMaster":false\n{tab * 2}}}\n{tab}],\n'
        f'{tab}"filterServerTable":{{}},\n{tab}"queueDatas":[\n{tab * 2}{{\n'
        f'{tab * 3}"brokerName":"broker-a",\n{tab * 3}"perm":6,\n'
        f'{tab * 3}"readQueueNums":2,\n{tab * 3}"topicSysFlag":0,\n'
        f'{tab * 3}"writeQueueNums":2\n{tab * 2}}}\n{tab}]\n}}\n'
    )


def test_a_route_as_a_table() -> None:
    route = TopicRouteData(
        [QueueData("b", 4, 2, 6), QueueData("a", 1, 1, 4)],
        [BrokerData("C", "b", {1: "h:2", 0: "h:1"}), BrokerData("C", "a", {0: "h:3"})],
    )
    head, first, other, rule, total = route_lines(route)
    assert head.split() == [
        "#ClusterName",
        "#BrokerName",
        "#BrokerAddrs",
        "#ReadQueue",
        "#WriteQueue",
        "#Perm",
    ]
    assert first.startswith(f"{'C':<45} {'a':<32} {'{0=h:3}':<50} {1:<10} {1:<11} {4:<5}")
    assert f"{'{0=h:1, 1=h:2}':<50} {4:<10} {2:<11} 6" in other
    assert rule == "-" * 158
    assert total.split() == ["Total:", "2", "5", "3"]


@pytest.mark.parametrize("name", ["topicRoute", "topicStatus", "topicClusterList"])
def test_an_unknown_topic_is_not_found(world: World, name: str) -> None:
    ran = world.mqadmin(name, "-t", "nosuch")
    assert (ran.code, ran.out) == (5, "")
    assert "topic nosuch is not known" in ran.err


def test_bounds(world: World) -> None:
    lines = world.mqadmin("topicStatus", "-t", TOPIC).lines
    assert lines[0] == (
        "#Broker Name                      #QID  #Min Offset           #Max Offset          "
        "   #Last Updated"
    )
    assert lines[1].startswith(
        "broker-a                          0     0                     3                       20"
    )
    assert lines[3] == ""
    assert lines[4].startswith("Topic Put TPS: ")
    rows = world.mqadmin("topicStatus", "-t", TOPIC, "-o", "json").rows
    assert [(row["queue"], row["max_offset"]) for row in rows] == [(0, 3), (1, 3)]


def test_clusters(world: World) -> None:
    assert world.mqadmin("topicClusterList", "--topic", TOPIC).lines == ["DefaultCluster"]


def test_the_queues_that_members_would_get(world: World) -> None:
    (line,) = world.mqadmin("allocateMQ", "-t", TOPIC, "-i", "10.0.0.1,10.0.0.2,10.0.0.3").lines
    assert json.loads(line)["result"] == {
        "10.0.0.1": [{"brokerName": "broker-a", "queueId": 0, "topic": TOPIC}],
        "10.0.0.2": [{"brokerName": "broker-a", "queueId": 1, "topic": TOPIC}],
        "10.0.0.3": [],
    }
