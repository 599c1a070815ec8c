"""`sendMessage`, `consumeMessage`; on a topic of their own."""

import pytest
from tests.admin.world import World

TOPIC = "transfer"


@pytest.fixture(scope="module", autouse=True)
def _topic(world: World) -> None:
    args = ("-c", "DefaultCluster", "-t", TOPIC, "-r", "2", "-w", "2")
    assert world.mqadmin("updateTopic", *args).code == 0


def test_send_and_consume(world: World) -> None:
    where = ("-b", "broker-a", "-i", "1")
    for body in ("one", "two", "three"):
        ran = world.mqadmin("sendMessage", "-t", TOPIC, "-p", body, "-k", "k", "-c", "T", *where)
        head, line = ran.lines
        assert head == "#Broker Name                      #QID  #Send Result            #MsgId"
        assert line.startswith("broker-a                          1     SEND_OK                 7F")
    lines = world.mqadmin("consumeMessage", "-t", TOPIC).lines
    finished = "MessageQueue [topic=transfer, brokerName=broker-a, queueId={}] print msg finished."
    assert lines[0] == f"{finished.format(0)} status=NO_NEW_MSG, offset=0"
    assert lines[1] == "Consume ok"
    assert [line.rpartition(" ")[2] for line in lines[2:5]] == ["one", "two", "three"]
    assert lines[5:] == [f"{finished.format(1)} status=NO_NEW_MSG, offset=3"]
    lines = world.mqadmin("consumeMessage", "-t", TOPIC, "-c", "2").lines
    assert lines[1] == "The older 2 message of the 1 queue will be provided"
    assert [line.rpartition(" ")[2] for line in lines[3:5]] == ["one", "two"]
    rows = world.mqadmin("-o", "json", "consumeMessage", "-t", TOPIC, *where, "-o", "2").rows
    assert [(row["body"], row["tags"], row["keys"]) for row in rows] == [("three", "T", ["k"])]
    lines = world.mqadmin("consumeMessage", "-t", TOPIC, "-s", "now").lines
    assert "Consume ok" not in lines
    assert "Consume ok" not in world.mqadmin("consumeMessage", "-t", TOPIC, "-e", "1").lines


def test_as_json(world: World) -> None:
    (row,) = world.mqadmin("sendMessage", "-t", "fresh", "-p", "x", "-o", "json").rows
    assert (row["broker"], row["status"], row["queue_offset"]) == ("broker-a", "SEND_OK", 0)


@pytest.mark.parametrize(
    "args",
    [
        ("sendMessage", "-p", "x", "-i", "1"),
        ("sendMessage", "-p", "x", "-b", "broker-z"),
        ("sendMessage",),
        ("consumeMessage", "-i", "1"),
        ("consumeMessage", "-b", "broker-a", "-o", "1"),
        ("consumeMessage", "-b", "broker-z"),
    ],
)
def test_wrong_use(world: World, args: tuple[str, ...]) -> None:
    assert world.mqadmin(*args, "-t", TOPIC).code == 2
