"""Creating, changing and deleting topics."""

import pytest
from tests.admin.world import World

from epochmq.admin.mqadmin.mqadmin_topic_changes import parse_attributes, topic_text
from epochmq.base.errors import UsageError
from epochmq.model.topic import TopicConfig


def test_a_configuration_as_rocketmq_prints_it() -> None:
    config = TopicConfig("t", 4, 4, order=True, attributes={"+message.type": "FIFO"})
    assert topic_text(config) == (
        "TopicConfig [topicName=t, readQueueNums=4, writeQueueNums=4, perm=RW-,"
        " topicFilterType=SINGLE_TAG, topicSysFlag=0, order=true,"
        " attributes={+message.type=FIFO}]"
    )


def test_on_a_cluster_and_deleted(world: World) -> None:
    ran = world.mqadmin("updateTopic", "-c", "DefaultCluster", "-t", "t1", "-o", "true", "-w", "3")
    assert ran.lines == [
        f"create topic to {world.broker} success.",
        "set cluster orderConf. isOrder=true, orderConf=[broker-a:3]",
        "TopicConfig [topicName=t1, readQueueNums=8, writeQueueNums=3, perm=RW-,"
        " topicFilterType=SINGLE_TAG, topicSysFlag=0, order=true, attributes={}]",
    ]
    ran = world.mqadmin("deleteTopic", "-c", "DefaultCluster", "-t", "t1")
    assert ran.lines == [
        "delete topic [t1] from cluster [DefaultCluster] success.",
        "delete topic [t1] from NameServer success.",
    ]
    assert world.mqadmin("topicRoute", "-t", "t1").code == 5


def test_on_one_broker(world: World) -> None:
    args = ("-b", world.broker, "-t", "t2", "-p", "4", "-u", "true", "-s", "true", "-o", "true")
    ran = world.mqadmin("updateTopic", *args, "-a", "+message.type=FIFO", "--output", "json")
    (row,) = ran.rows
    assert (row["broker"], row["perm"], row["topicSysFlag"]) == (world.broker, 4, 3)
    lines = world.mqadmin("updateTopic", *args).lines
    assert lines[0] == "set broker orderConf. isOrder=true, orderConf=[broker-a:8]"
    assert world.mqadmin("deleteTopic", "-c", "DefaultCluster", "-t", "t2").code == 0


def test_attributes() -> None:
    assert parse_attributes("+a=b,-c") == {"+a": "b", "-c": ""}
    assert parse_attributes("") == {}
    for wrong in ("a=b", "+a", "-a=b", "+a=", "c", "+a=1,+a=2"):
        with pytest.raises(UsageError):
            parse_attributes(wrong)


@pytest.mark.parametrize(
    "args",
    [
        ("-t", "t"),
        ("-c", "DefaultCluster"),
        ("-b", "h:1", "-c", "C", "-t", "t"),
        ("-c", "DefaultCluster", "-t", "t", "-r", "0"),
        ("-c", "DefaultCluster", "-t", "t", "-o", "yes"),
        ("-c", "DefaultCluster", "-t", "t", "-a", "x"),
        ("-c", "DefaultCluster", "-t", " "),
    ],
)
def test_wrong_use(world: World, args: tuple[str, ...]) -> None:
    assert world.mqadmin("updateTopic", *args).code == 2


def test_an_unknown_cluster_deletes_nothing(world: World) -> None:
    ran = world.mqadmin("deleteTopic", "-c", "Nope", "-t", "orders")
    assert (ran.code, ran.out) == (5, "")
