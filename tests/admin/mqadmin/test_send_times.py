"""`sendMsgStatus`, `checkMsgSendRT`, `clusterRT`."""

import re

import pytest
from tests.admin.world import World

from epochmq.admin.mqadmin import send_times
from epochmq.admin.mqadmin.send_times import result_text
from epochmq.client.aio import SendResult
from epochmq.client.core.send_policy import SendStatus
from epochmq.model.topic import MessageQueue

TOPIC = "timed_sends"


def test_each_result_of_a_brokers_own_topic(world: World) -> None:
    lines = world.mqadmin("sendMsgStatus", "-b", "broker-a", "-c", "3", "-s", "10").lines
    assert len(lines) == 3
    for line in lines:
        assert re.fullmatch(
            r"rt=\d+ms, SendResult=SendResult \[sendStatus=SEND_OK, msgId=\w+, offsetMsgId=\w+,"
            r" messageQueue=MessageQueue \[topic=broker-a, brokerName=broker-a, queueId=\d\],"
            r" queueOffset=\d+, recallHandle=null\]",
            line,
        )


def test_a_result_in_words() -> None:
    sent = SendResult(SendStatus.FLUSH_DISK_TIMEOUT, "ID", "AT", MessageQueue("T", "b", 2), 7)
    assert result_text(sent) == (
        "SendResult [sendStatus=FLUSH_DISK_TIMEOUT, msgId=ID, offsetMsgId=AT,"
        " messageQueue=MessageQueue [topic=T, brokerName=b, queueId=2], queueOffset=7,"
        " recallHandle=null]"
    )


def test_the_queues_of_a_topic_in_turn(world: World) -> None:
    where = ("-c", "DefaultCluster", "-t", TOPIC, "-r", "2", "-w", "2")
    assert world.mqadmin("updateTopic", *where).code == 0
    lines = world.mqadmin("checkMsgSendRT", "-t", TOPIC, "-a", "4").lines
    assert lines[0] == "#Broker Name                      #QID  #Send Result            #RT"
    assert [line.split()[:3] for line in lines[1:5]] == [
        ["broker-a", queue, "true"] for queue in ("0", "1", "0", "1")
    ]
    assert re.fullmatch(r"Avg RT: \d+\.\d\d", lines[5])
    rows = world.mqadmin("checkMsgSendRT", "-t", TOPIC, "-a", "1", "-o", "json").rows
    assert [(row["broker"], row["queue"], row["sent"]) for row in rows] == [("broker-a", 0, True)]


def test_every_broker_of_a_cluster(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def only_once(once: object, seconds: int) -> None:
        assert callable(once)
        assert seconds == 3
        await once()

    monkeypatch.setattr(send_times, "repeat", only_once)
    head, line = world.mqadmin("clusterRT", "-a", "3", "-i", "3").lines
    assert head.split() == ["#Cluster", "Name", "#Broker", "Name", "#RT", *COUNTS]
    name, broker, mean, good, failed = line.split()
    assert (name, broker, good, failed) == ("DefaultCluster", "broker-a", "3", "0")
    assert float(mean) >= 0
    (line,) = world.mqadmin("clusterRT", "-a", "2", "-i", "3", "-p", "true", "-m", "room").lines
    assert re.fullmatch(r"[\d-]+ [\d:]+\|room\|DefaultCluster\|broker-a\|\d+", line)
    ran = world.mqadmin("clusterRT", "-c", "nosuch", "-i", "3")
    assert (ran.code, "there are: DefaultCluster" in ran.err) == (2, True)


COUNTS = ["#successCount", "#failCount"]
