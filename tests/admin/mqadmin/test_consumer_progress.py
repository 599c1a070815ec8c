"""`consumerProgress`: columns as RocketMQ 5.3.3 prints them."""

from tests.admin.world import OFFLINE, ONLINE, QUEUES, TOPIC, World

from epochmq.admin.mqadmin.consumer_progress import group_line, queue_line
from epochmq.admin.shared.group_figures import QueuePosition, Summary
from epochmq.admin.shared.java_text import second

HEAD = (
    "#Topic                                                            #Broker Name            "
    "          #QID  #Broker Offset        #Consumer Offset      #Diff                #Inflight"
    "           #LastTime"
)
HEAD_IP = (
    "#Topic                                                            #Broker Name            "
    "          #QID  #Broker Offset        #Consumer Offset      #Client IP           #Diff    "
    "            #Inflight           #LastTime"
)


def test_a_queue() -> None:
    at = QueuePosition(QUEUES[1], 3, 1, 2, 1_795_309_019_000, "127.0.0.1@1#2")
    start = (
        "orders                                                            broker-a               "
        "           1     3                     1                     "
    )
    last = second(1_795_309_019_000)
    assert queue_line(at, False) == f"{start}2                    1                    {last}"
    assert queue_line(at, True) == (
        f"{start}127.0.0.1            2                    1                    {last}"
    )
    at = QueuePosition(QUEUES[1], 3, 3, 3, 0)
    assert queue_line(at, True).split()[5:] == ["N/A", "0", "0", "N/A"]


def test_a_group() -> None:
    found = Summary("ongroup", 1, "V5_0_0", "PUSH", "CLUSTERING", 2.9, 7)
    assert group_line(found) == (
        "ongroup                                                           1       V5_0_0         "
        "          PUSH   CLUSTERING      2        7"
    )
    assert group_line(Summary("g")).split() == ["g", "0", "OFFLINE", "0", "0"]


def test_a_group_nobody_is_in(world: World) -> None:
    lines = world.mqadmin("consumerProgress", "-g", OFFLINE).lines
    assert lines[0] == HEAD
    assert [line.split()[:7] for line in lines[1:3]] == [
        [TOPIC, "broker-a", str(queue), "3", "1", "2", "0"] for queue in (0, 1)
    ]
    assert lines[3:] == [
        "",
        "Consume TPS: 0.00",
        "Consume Diff Total: 4",
        "Consume Inflight Total: 0",
    ]
    rows = world.mqadmin("consumerProgress", "-g", OFFLINE, "-t", TOPIC, "-o", "json").rows
    assert [(row["queue"], row["lag"]) for row in rows] == [(0, 2), (1, 2)]


def test_groups_with_members(world: World) -> None:
    with world.member() as client_id:
        world.wait_consumed(ONLINE)
        lines = world.mqadmin("consumerProgress").lines
        assert lines[0] == (
            "#Group                                                            #Count  #Version   "
            "              #Type  #Model          #TPS     #Diff Total"
        )
        (line,) = [line for line in lines if line.startswith(ONLINE)]
        assert line.split()[1:5] == ["1", "V5_0_0", "PUSH", "CLUSTERING"]
        lines = world.mqadmin("consumerProgress", "-g", ONLINE, "-s", "true").lines
        assert lines[0] == HEAD_IP
        assert client_id.partition("@")[0] in lines[1]


def test_an_unknown_group(world: World) -> None:
    ran = world.mqadmin("consumerProgress", "-g", "nosuch")
    assert (ran.code, "group nosuch is not known" in ran.err) == (5, True)
