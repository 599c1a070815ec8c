"""Creating, changing and deleting topics."""

from pathlib import Path

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


def test_a_list_of_topics(world: World, tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    file.write_text('[{"topicName":"l1","readQueueNums":2,"perm":4},{"topicName":"l2"}]')
    ran = world.mqadmin("updateTopicList", "-c", "DefaultCluster", "-f", str(file))
    assert ran.lines == [
        f"submit batch of topic config to {world.broker} success, please check the result later."
    ]
    (row,) = world.mqadmin("topicRoute", "-t", "l1", "-o", "json").rows
    (queues,) = row["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (2, 16, 4)
    assert world.mqadmin("topicRoute", "-t", "l2").code == 0


@pytest.mark.parametrize(
    ("content", "problem"),
    [("{}", "has no JSON list of TopicConfig"), ('[{"topicName":"a b"}]', "topic"), (None, "read")],
)
def test_a_file_that_is_no_list(
    world: World, tmp_path: Path, content: str | None, problem: str
) -> None:
    file = tmp_path / "topics.json"
    if content is not None:
        file.write_text(content)
    ran = world.mqadmin("updateTopicList", "-b", world.broker, "-f", str(file))
    assert ran.code != 0
    assert problem in ran.err


def test_permissions(world: World) -> None:
    assert world.mqadmin("updateTopic", "-b", world.broker, "-t", "p1", "-w", "3").code == 0
    where = ("-b", world.broker, "-t", "p1")
    lines = world.mqadmin("updateTopicPerm", *where, "-p", "4").lines
    assert lines == [
        f"update topic perm from 6 to 4 in {world.broker} success.",
        "TopicConfig [topicName=p1, readQueueNums=8, writeQueueNums=3, perm=R--,"
        " topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, attributes={}].",
    ]
    lines = world.mqadmin("updateTopicPerm", *where, "-p", "4").lines
    assert lines == ["new perm equals to the old one!"]
    lines = world.mqadmin("updateTopicPerm", "-c", "DefaultCluster", "-t", "p1", "-p", "6").lines
    assert lines == [f"update topic perm from 4 to 6 in {world.broker} success."]
    ran = world.mqadmin("updateTopicPerm", "-b", "127.0.0.1:1", "-t", "p1", "-p", "4")
    assert ran.code == 5
    assert "no master 127.0.0.1:1 has the topic p1" in ran.err


def test_the_order_configuration(world: World) -> None:
    change = ("updateOrderConf", "-t", "o1", "-m")
    assert world.mqadmin(*change, "get").code == 5
    assert world.mqadmin(*change, "put").code == 2
    lines = world.mqadmin(*change, "put", "-v", "broker-a:4").lines
    assert lines == ["update orderConf success. topic=[o1], orderConf=[broker-a:4]"]
    lines = world.mqadmin(*change, "get").lines
    assert [line.strip() for line in lines] == [
        "get orderConf success. topic=[o1], orderConf=[broker-a:4]"
    ]
    (row,) = world.mqadmin(*change, "get", "-o", "json").rows
    assert row == {"topic": "o1", "method": "get", "orderConf": "broker-a:4"}
    assert world.mqadmin(*change, "delete").lines == ["delete orderConf success. topic=[o1]"]
    assert world.mqadmin(*change, "get").code == 5
