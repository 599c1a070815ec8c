"""`printMsg`, `printMsgByQueue`."""

import pytest
from tests.admin.world import TOPIC, World


def test_all_queues_of_a_topic(world: World) -> None:
    lines = world.mqadmin("printMsg", "-t", TOPIC).lines
    queue = "MessageQueue [topic=orders, brokerName=broker-a, queueId={}]"
    starts = [line for line in lines if line.startswith("minOffset")]
    assert starts == [f"minOffset=0, maxOffset=3, {queue.format(n)}" for n in (0, 1)]
    assert [line.rpartition(" BODY: ")[2] for line in lines if line.startswith("MSGID")] == [
        "body-0",
        "body-2",
        "body-4",
        "body-1",
        "body-3",
        "body-5",
    ]
    assert lines[-1] == "-" * 56


def test_filters_ranges_and_bodies(world: World) -> None:
    lines = world.mqadmin("printMsg", "-t", TOPIC, "-s", "odd", "-d", "false").lines
    shown = [line for line in lines if line.startswith("MSGID")]
    assert len(shown) == 3
    assert {line.rpartition(" BODY: ")[2] for line in shown} == {"NOT PRINT BODY"}
    assert [line for line in lines if "no matched msg. status=NO_MATCHED_MSG, offset=3" in line]
    none = world.mqadmin("printMsg", "-t", TOPIC, "-e", "1").lines
    assert not [line for line in none if line.startswith("MSGID")]
    rows = world.mqadmin("printMsg", "-t", TOPIC, "-s", "odd", "-o", "json").rows
    assert [row["body"] for row in rows] == ["body-1", "body-3", "body-5"]


def test_one_queue_and_counts_by_tag(world: World) -> None:
    where = ("-t", TOPIC, "-a", "broker-a", "-i", "1")
    assert world.mqadmin("printMsgByQueue", *where).out == ""
    lines = world.mqadmin("printMsgByQueue", *where, "-p", "true", "-f", "true").lines
    assert [line.rpartition(" BODY: ")[2] for line in lines[:3]] == ["NOT PRINT BODY"] * 3
    assert lines[3:] == [f"Tag: {'odd':<30} Count: 3"]
    lines = world.mqadmin("printMsgByQueue", *where, "-p", "true", "-d", "true").lines
    assert [line.rpartition(" BODY: ")[2] for line in lines] == ["body-1", "body-3", "body-5"]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("printMsg", "-t", "nosuch"), 5),
        (("printMsg", "-t", TOPIC, "-l", "parent"), 2),
        (("printMsg", "-t", TOPIC, "-c", "KLINGON"), 2),
        (("printMsg", "-t", TOPIC, "-b", "yesterday"), 2),
        (("printMsgByQueue", "-t", TOPIC, "-a", "broker-a"), 2),
        (("printMsgByQueue", "-t", TOPIC, "-a", "nosuch", "-i", "0"), 3),
    ],
)
def test_wrong_use(world: World, args: tuple[str, ...], code: int) -> None:
    ran = world.mqadmin(*args)
    assert ran.code == code, ran
    assert "Traceback" not in ran.err
