"""`statsAll`, `brokerConsumeStats`, `queryCq`."""

import asyncio

import pytest
from tests.admin.world import OFFLINE, TOPIC, World

from epochmq.admin.mqadmin.mqadmin_stats import count_of_day
from epochmq.client.aio import Admin, Producer, PullConsumer
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.message import Message
from epochmq.model.topic import MessageQueue, TopicConfig
from epochmq.wire.bodies.runtime_bodies import BrokerStatsData, BrokerStatsItem

COUNTED, READERS = "counted", "counters"


@pytest.fixture(scope="module", autouse=True)
def _counted(world: World) -> None:
    """A topic and a group that no other test uses: two queues of three messages, one read."""

    async def fill() -> None:
        namesrv = world.cluster.namesrv_addr
        async with Admin(namesrv) as admin:
            await admin.create_topic(TopicConfig(COUNTED, 2, 2))
            await admin.put_group(world.broker, SubscriptionGroupConfig(READERS))
        async with Producer(namesrv, "p") as producer, PullConsumer(namesrv, READERS) as reader:
            await producer.queues(COUNTED)
            for queue in (MessageQueue(COUNTED, "broker-a", n) for n in (0, 1)):
                for _ in range(3):
                    await producer.send(Message(COUNTED, b"x"), queue=queue)
                await reader.commit(queue, 1)

    asyncio.run(fill())


def test_topics_and_their_groups(world: World) -> None:
    head, *lines = world.mqadmin("statsAll").lines
    assert head.split()[:3] == ["#Topic", "#Consumer", "Group"]
    assert [line.split()[:3] for line in _lines_of(lines, COUNTED)] == [[COUNTED, READERS, "4"]]
    assert not [line for line in lines if line.startswith("%")]
    (line,) = world.mqadmin("statsAll", "-t", COUNTED).lines[1:]
    assert line.split()[:3] == [COUNTED, READERS, "4"]
    alone = _lines_of(lines, "TBW102")
    assert [line.split()[-1] for line in alone] == ["NO_CONSUMER"]
    assert _lines_of(world.mqadmin("statsAll", "-a").lines, "TBW102") == []
    (row,) = world.mqadmin("statsAll", "-t", COUNTED, "-o", "json").rows
    assert (row["topic"], row["group"], row["lag"]) == (COUNTED, READERS, 4)


def _lines_of(lines: list[str], topic: str) -> list[str]:
    return [line for line in lines if line.startswith(f"{topic} ")]


def test_the_sum_of_a_day_is_that_of_the_longest_period_known() -> None:
    minute, hour, day = (BrokerStatsItem(sum=n) for n in (1, 2, 3))
    assert count_of_day(BrokerStatsData(minute, hour, day)) == 3
    assert count_of_day(BrokerStatsData(minute, hour)) == 2
    assert count_of_day(BrokerStatsData(minute)) == 1


def test_all_groups_of_a_broker(world: World) -> None:
    head, *lines = world.mqadmin("brokerConsumeStats", "-b", world.broker).lines
    assert head.startswith("#Topic ")
    assert [line.split()[:7] for line in _lines_of(lines, COUNTED)] == [
        [COUNTED, READERS, "broker-a", queue, "3", "1", "2"] for queue in ("0", "1")
    ]
    assert lines[-1].startswith("Diff Total: ")
    far = world.mqadmin("brokerConsumeStats", "-b", world.broker, "-l", "3").lines
    assert _lines_of(far, COUNTED) == []
    ordered = world.mqadmin("brokerConsumeStats", "-b", world.broker, "-o", "true").lines
    assert _lines_of(ordered, COUNTED) == []


def test_units_of_a_consume_queue(world: World) -> None:
    where = ("-t", TOPIC, "-q", "1", "-i", "1", "-c", "2")
    lines = world.mqadmin("queryCq", *where).lines
    assert lines[:3] == ["Queue data: ", "max: 3, min: 0", "=" * 38]
    assert [line for line in lines if line.startswith("idx")] == ["idx: 1", "idx: 2"]
    (first, second) = world.mqadmin("queryCq", *where, "--output", "json").rows
    assert (first["index"], second["index"]) == (1, 2)
    assert first["log_offset"] < second["log_offset"]
    assert world.mqadmin("queryCq", *where, "-b", world.broker).lines == lines
    offline = world.mqadmin("queryCq", *where, "-g", OFFLINE).lines
    assert offline[:3] == ["Filter data: ", f"{OFFLINE}@{TOPIC} is not online!", "=" * 38]
    with world.member():
        online = world.mqadmin("queryCq", *where, "-g", "shipping").lines
    assert online[0] == "Subscription data: "
    assert any('"subString":"odd"' in line for line in online)


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("queryCq", "-t", "nosuch", "-q", "0", "-i", "0"), 5),
        (("brokerConsumeStats", "-b", "127.0.0.1:1"), 3),
        (("statsAll", "-t"), 2),
    ],
)
def test_wrong_use(world: World, args: tuple[str, ...], code: int) -> None:
    ran = world.mqadmin(*args)
    assert (ran.code, "Traceback" in ran.err) == (code, False), ran
