"""Real dead letters: grouped, looked up, sent once more, never twice."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.client.aio.eventually import eventually
from tests.compat.peers.epochmq import EpochCluster

from epochmq.base.errors import NotFound, UsageError
from epochmq.client.aio import Admin, ConsumeResult, Producer, PushConsumer
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.message import Message, StoredMessage
from epochmq.model.topic import TopicConfig
from epochmq.spark.jobs.dlq import ORIGIN, REDRIVE_OF, RETRY, Dlq, dlq
from epochmq.spark.jobs.dlq_causes import Pick, parse_where
from epochmq.spark.jobs.dlq_ledger import read_ledger
from epochmq.spark.jobs.job_report import JobReport
from epochmq.spark.spark_cluster import Cluster

GROUP, TOPIC = "billing", "orders"


async def consume(namesrv: str, count: int, result: ConsumeResult) -> list[StoredMessage]:
    """What a member of the group is given, until there are `count` of them."""
    got: list[StoredMessage] = []
    async with PushConsumer(namesrv, GROUP, start="first", max_reconsume_times=0) as consumer:

        def listener(messages: list[StoredMessage]) -> ConsumeResult:
            got.extend(messages)
            return result

        consumer.on_message(listener)
        await consumer.subscribe(TOPIC, "*")
        await consumer.start()

        async def count_of() -> int:
            return len(got)

        await eventually(count_of, lambda seen: seen >= count)
        await asyncio.sleep(0.2)  # what came too often would come now
    return got


async def kill_letters(cluster: EpochCluster) -> None:
    async with Admin(cluster.namesrv_addr) as admin:
        await admin.create_topic(TopicConfig(TOPIC, 2, 2))
        await admin.put_group(cluster.broker_addr, SubscriptionGroupConfig(GROUP))
    async with Producer(cluster.namesrv_addr) as producer:
        for number in range(6):
            body = b'{"reason": "r%d"}' % (number % 2)
            tag = "a" if number < 4 else "b"
            await producer.send(Message(TOPIC, body, tag, properties={"n": str(number)}))
    await consume(cluster.namesrv_addr, 6, ConsumeResult.LATER)


@pytest.fixture(scope="module")
def cluster() -> Iterator[EpochCluster]:
    with EpochCluster() as running:
        asyncio.run(kill_letters(running))
        with Cluster(running.namesrv_addr) as looker:

            async def dead() -> int:
                if f"%DLQ%{GROUP}" not in looker.topics():
                    return 0
                return sum(high for _, high in looker.bounds(f"%DLQ%{GROUP}").values())

            asyncio.run(eventually(dead, lambda count: count == 6))
        yield running


@pytest.fixture
def job(cluster: EpochCluster) -> Dlq:
    return Dlq(cluster.namesrv_addr, GROUP)


def test_causes_with_their_origins(job: Dlq) -> None:
    report = dlq(job)
    causes = report.details["causes"]
    assert isinstance(causes, list)
    found = [(row["topic"], row["tags"], row["count"], row["origin"]) for row in causes]
    assert found == [(TOPIC, "a", 4, {"there": 4}), (TOPIC, "b", 2, {"there": 2})]
    assert report.rows == 6
    report = dlq(replace(job, by=("body:reason",), pick=Pick(where=parse_where(("tags=a",)))))
    causes = report.details["causes"]
    assert isinstance(causes, list)
    assert [(row["body:reason"], row["count"]) for row in causes] == [("r0", 2), ("r1", 2)]


def numbers(report: JobReport) -> tuple[object, object]:
    """What a re-drive was to send, and what it has sent."""
    return report.details["toSend"], report.details["sent"]


def test_letters_are_sent_once_however_often_it_is_asked(job: Dlq, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    some = replace(
        job, to=RETRY, ledger=ledger, pick=Pick(where=parse_where(("tags=a",))), rate=500.0
    )
    assert numbers(dlq(some, dry_run=True)) == (4, 0)
    assert not ledger.exists()
    assert numbers(dlq(some)) == (4, 4)
    assert numbers(dlq(some)) == (0, 0)
    # As if the process had died before it wrote the last line: the broker holds the message.
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-1]))
    again = dlq(replace(some, pick=Pick()))
    assert again.details["finishing"] == 1
    assert numbers(again) == (2, 3), "the interrupted one counts as sent as well"
    got = asyncio.run(consume(job.name_server, 6, ConsumeResult.SUCCESS))
    assert sorted(message.properties["n"] for message in got) == list("012345")
    assert {message.properties[REDRIVE_OF] for message in got} == set(
        read_ledger(ledger, GROUP).done
    )
    assert all(message.topic in (TOPIC, f"%RETRY%{GROUP}") for message in got)


def test_the_old_topic_gets_them_without_a_trace_of_the_retry(job: Dlq, tmp_path: Path) -> None:
    pick = Pick(where=parse_where(("property:n=5",)))
    report = dlq(replace(job, to=ORIGIN, ledger=tmp_path / "l", pick=pick))
    assert report.details["toSend"] == 1
    (message,) = asyncio.run(consume(job.name_server, 1, ConsumeResult.SUCCESS))
    assert (message.topic, message.properties["n"]) == (TOPIC, "5")
    assert "RETRY_TOPIC" not in message.properties


def test_mistakes(job: Dlq, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="has no dead letters"):
        dlq(replace(job, group="nobody"))
    with pytest.raises(UsageError, match="needs a ledger"):
        Dlq("n:1", GROUP, to=RETRY)
    with pytest.raises(UsageError, match="must not be negative"):
        Dlq("n:1", GROUP, rate=-1)
    with pytest.raises(UsageError, match="has no 'colour'"):
        Dlq("n:1", GROUP, by=("colour",))
