"""The jobs beside the archive, on Spark and one small cluster."""

import asyncio
import json
import random
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.client.core.test_trace_text import context
from tests.compat.peers.epochmq import EpochCluster
from tests.spark.jobs.replicas import make_log, write_store
from tests.spark.sinking import messages

from epochmq.base.errors import NotFound, UsageError
from epochmq.client.aio import Admin, Producer
from epochmq.model.message import Message
from epochmq.model.topic import MessageQueue, TopicConfig
from epochmq.spark.jobs.archive import NO_SPARK, ArchiveOptions, run_archive
from epochmq.spark.jobs.audit import run_audit
from epochmq.spark.jobs.audit_report import spark_digester
from epochmq.spark.jobs.audit_sources import StoreReplica
from epochmq.spark.jobs.backfill import backfill
from epochmq.spark.jobs.compact import Compact, compact, latest, with_key, without_tombstones
from epochmq.spark.jobs.reconcile import Reconcile, reconcile
from epochmq.spark.jobs.reconcile_judge import (
    CONSUMED_DDL,
    SENT_DDL,
    STORED_DDL,
    Rules,
    judge,
)
from epochmq.spark.jobs.replay import ID, OF, PLACE, TOPIC, Replay, replay
from epochmq.spark.jobs.replay_plan import ReplayFilters, load_state, save_state
from epochmq.spark.jobs.snapshot import snapshot_files

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]  # a busy machine is ten times slower
ORDERS, AGAIN, TRACE = "jobs_orders", "jobs_again", "jobs_trace"


@dataclass
class Lake:
    """40 messages of two queues in an archive, 20 more in the topic alone."""

    namesrv: str
    table: str
    ids: list[str]
    times: list[int]


async def send(namesrv: str, numbers: range) -> tuple[list[str], list[int]]:
    ids, times = [], []
    async with Producer(namesrv) as producer:
        for number in numbers:
            queue = MessageQueue(ORDERS, "broker-a", number % 2)
            tag = "even" if number // 2 % 2 == 0 else "odd"
            keys = (f"k{number % 7}", "all")
            message = Message(ORDERS, b"%d" % number, tag, keys, {"n": str(number)})
            times.append(int(time.time() * 1000))
            ids.append((await producer.send(message, queue=queue)).msg_id)
            if number % 7 == 6:  # in one millisecond, the queue would decide which is the latest
                await asyncio.sleep(0.002)
    return ids, times


async def make_topics(namesrv: str) -> None:
    async with Admin(namesrv) as admin:
        for name, queues in ((ORDERS, 2), (AGAIN, 2), (TRACE, 1)):
            await admin.create_topic(TopicConfig(name, queues, queues))


@pytest.fixture(scope="module")
def lake(cluster: EpochCluster, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    table = str(tmp_path_factory.mktemp("lake") / "orders")
    namesrv = cluster.namesrv_addr
    asyncio.run(make_topics(namesrv))
    old = asyncio.run(send(namesrv, range(40)))
    done = run_archive(ArchiveOptions(namesrv, (ORDERS,), table, "delta"), master=NO_SPARK)
    assert done.rows == 40
    new = asyncio.run(send(namesrv, range(40, 60)))
    return Lake(namesrv, table, old[0] + new[0], old[1] + new[1])


def test_a_read_with_an_archive_has_each_message_once(spark: SparkSession, lake: Lake) -> None:
    """Retention is in tests/spark/test_archived_cluster.py; here the options reach the tasks."""
    reader = spark.read.format("rocketmq").options(nameServer=lake.namesrv, subscribe=ORDERS)
    rows = reader.option("archive", lake.table).load().select("msgId").collect()
    assert sorted(row["msgId"] for row in rows) == sorted(lake.ids)


def test_backfill_has_each_message_once_and_the_same_tomorrow(
    spark: SparkSession, lake: Lake
) -> None:
    found = backfill(spark, lake.table, lake.namesrv, columns=("msgId", "queueId", "queueOffset"))
    assert found.cut_over.live_rows == 20
    rows = found.frame.collect()
    assert sorted(row["msgId"] for row in rows) == sorted(lake.ids)
    assert {row["source"] for row in rows if row["queueOffset"] < 20} == {"archive"}
    assert {row["source"] for row in rows if row["queueOffset"] >= 20} == {"live"}
    with pytest.raises(UsageError, match="has no topic nothing"):
        backfill(spark, lake.table, lake.namesrv, topics=["nothing"])
    with pytest.raises(NotFound, match="no table"):
        backfill(spark, f"{lake.table}-2", lake.namesrv)


def test_replay_keeps_order_and_origin_and_goes_on_where_it_was(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    filters = ReplayFilters(ORDERS, tags=("even",), keys=("all",))
    job = Replay(lake.table, AGAIN, lake.namesrv, tmp_path / "state", filters, 400.0, 8)
    plan = replay(spark, job, dry_run=True)
    assert (plan.rows, plan.details["batches"], job.state.exists()) == (20, 3, False)

    class Stop:
        """After the second batch."""

        count = 0

        @property
        def asked(self) -> bool:
            self.count += 1
            return self.count > 2

    assert replay(spark, job, stop=Stop()).status == "interrupted"
    state = load_state(job.state, job.what)
    assert state is not None
    assert state.done == 2
    save_state(job.state, replace(state, done=1))  # as if the note of the second were lost
    report = replay(spark, job)
    assert report.status == "done"
    with pytest.raises(UsageError, match="is finished"):
        replay(spark, job)

    found = messages(lake.namesrv, AGAIN)
    order = [(each.queue_id, int(each.properties["n"])) for each in found]
    expected = [n for n in range(40) if n // 2 % 2 == 0]
    assert order == [(q, n) for q in (0, 1) for n in expected if n % 2 == q]
    for each in found:
        number = int(each.properties["n"])
        assert each.body == b"%d" % number
        assert each.keys == (f"k{number % 7}", "all")
        assert each.properties[OF] == lake.ids[number] != each.msg_id
        assert each.properties[TOPIC] == ORDERS
        assert each.properties[PLACE] == f"broker-a:{number % 2}:{number // 2}"
        assert each.properties[ID] == report.details["replayId"]


def test_replays_that_cannot_be(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    job = Replay(lake.table, "nowhere", lake.namesrv, tmp_path / "state")
    with pytest.raises(NotFound, match="nowhere"):
        replay(spark, job)
    none = replace(job, target=AGAIN, filters=ReplayFilters(tags=("none",)))
    with pytest.raises(NotFound, match="no message of the table passes"):
        replay(spark, none)


def changelog(seed: int) -> list[tuple[Any, ...]]:
    """Rows as of a table; keys keep to a queue, but for key x."""
    rng = random.Random(seed)
    rows = []
    for offset in range(60):
        for queue in (0, 1):
            key = rng.choice([f"k{queue}{rng.randrange(6)}", "x", ""])
            body = b"" if rng.random() < 0.3 else b"%d.%d" % (queue, offset)
            stored = datetime.fromtimestamp(1_700_000_000 + rng.randrange(10), UTC)
            tags = "gone" if rng.random() < 0.1 else None
            rows.append((key or None, body, tags, queue, offset, "b", stored))
    return rows


def expected_snapshot(rows: list[tuple[Any, ...]]) -> dict[str, bytes]:
    by_queue: dict[tuple[str, int], tuple[Any, ...]] = {}
    for row in sorted(rows, key=lambda row: row[4]):
        if row[0] is not None:
            by_queue[row[0], row[3]] = row
    by_key: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for (key, _), row in by_queue.items():
        by_key[key].append(row)
    last = {
        key: max(found, key=lambda r: (r[6], r[5], r[3], r[4])) for key, found in by_key.items()
    }
    return {key: row[1] for key, row in last.items() if row[1] and row[2] != "gone"}


def test_the_latest_of_each_key_is_the_same_whatever_the_order(spark: SparkSession) -> None:
    ddl = (
        "keys string, body binary, tags string, queueId int, queueOffset bigint,"
        " brokerName string, storeTimestamp timestamp"
    )
    for seed in (1,):
        rows = changelog(seed)
        random.Random(seed + 7).shuffle(rows)
        frame = with_key(spark.createDataFrame(rows, ddl), "keys").where("key is not null")
        kept = without_tombstones(latest(frame), "gone").collect()
        assert {row["key"]: bytes(row["body"]) for row in kept} == expected_snapshot(rows)


def test_a_snapshot_replaces_the_one_before(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    target = str(tmp_path / "snapshot")
    job = Compact(target, ORDERS, lake.table, key="property:n", format="delta")
    report = compact(spark, job)
    assert (report.rows, report.details["withoutKey"]) == (40, 0)
    both = replace(job, name_server=lake.namesrv, key="keys", format=None)
    assert compact(spark, both).rows == 7
    rows = spark.read.parquet(*snapshot_files(target)).collect()
    newest = {f"k{n % 7} all": b"%d" % n for n in range(60)}
    assert {row["key"]: bytes(row["body"]) for row in rows} == newest
    live = compact(spark, Compact(str(tmp_path / "live"), ORDERS, "", lake.namesrv))
    assert (live.rows, live.details["format"]) == (7, "parquet")
    with pytest.raises(UsageError, match="is delta, not parquet"):
        compact(spark, replace(job, format="parquet"))


def test_what_became_of_each_message_is_counted_right(spark: SparkSession) -> None:
    rng = random.Random(5)
    sent, stored, consumed = [], [], []
    want: dict[str, int] = defaultdict(int)
    mine: dict[str, int] = defaultdict(int)
    for number in range(300):
        at, name = number * 10, f"m{number:03d}"
        acked, copies = rng.random() < 0.9, rng.choice([0, 1, 1, 1, 1, 2])
        told = rng.random() < 0.9
        if told:
            sent.append((name, at, acked))
        for copy in range(copies):
            stored.append((name, at + 5, at, f"b:0:{number * 2 + copy}"))
        want["sent"] += told
        want["stored"] += bool(copies)
        want["lost"] += told and acked and not copies and at < 2_000
        want["pending"] += told and acked and not copies and at >= 2_000
        want["duplicated"] += copies > 1
        want["unacknowledged"] += told and not acked and bool(copies)
        want["unannounced"] += bool(copies) and not told
        tries = rng.randrange(4) if copies else 0
        successes = 0
        first = None
        for turn in range(tries):
            ok = rng.random() < 0.6
            moment = at + 5 + 100 * (turn + 1)
            consumed.append(("g", name, moment, ok, turn))
            successes += ok
            first = moment if ok and first is None else first
        if not copies:
            continue
        old, unknown = at + 5 < 2_000, not tries and at + 5 < 300
        mine["stored"] += 1
        mine["consumed"] += successes > 0
        mine["unknown"] += unknown
        mine["lost"] += old and not tries and not unknown
        mine["failed"] += old and tries > 0 and not successes
        mine["pending"] += not old and not successes
        mine["duplicated"] += successes > 1
        mine["late"] += first is not None and first - at - 5 > 150
    rules = Rules(2_000, late_ms=150, since=300)
    verdict = judge(
        spark.createDataFrame(sent, SENT_DDL),
        spark.createDataFrame(stored, STORED_DDL),
        spark.createDataFrame(consumed, CONSUMED_DDL),
        rules,
        ("g", "nobody"),
    )
    assert verdict.topic == want
    nobody = verdict.groups.pop("nobody")
    assert (nobody["stored"], nobody["consumed"], nobody["failed"]) == (mine["stored"], 0, 0)
    assert verdict.groups == {"g": mine}
    assert verdict.latencies["topic"] == {"sendToStore": [5, 5, 5, 5]}
    assert verdict.latencies["g"]["storeToConsume"][0] in (100, 200)
    assert verdict.latencies["nobody"] == {}
    assert not verdict.is_clean
    assert len(verdict.samples["lost"]) == 10


def test_reconciling_with_a_log_and_the_trace(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    log = tmp_path / "sent.jsonl"
    lines = [{"msgId": i, "at": at} for i, at in zip(lake.ids, lake.times, strict=True)]
    lines.append({"msgId": "NEVER", "at": lake.times[0]})
    log.write_text("\n".join(json.dumps(line) for line in lines))
    traces = ""
    for number, msg_id in enumerate(lake.ids[:50]):
        at = lake.times[number] + 40
        traces += context("SubBefore", at, "r", "billing", f"R{number}", msg_id, 0, "k")
        ok = "false" if number == 3 else "true"
        traces += context("SubAfter", f"R{number}", msg_id, 2, ok, "k", 0, at + 2, "billing")

    async def publish() -> None:
        async with Producer(lake.namesrv) as producer:
            await producer.send(Message(TRACE, traces.encode()))

    asyncio.run(publish())
    job = Reconcile(lake.namesrv, ORDERS, sent=str(log), trace=TRACE, grace_ms=0)
    verdict, report = reconcile(spark, job)
    assert verdict.topic["sent"] == 61
    assert (verdict.topic["stored"], verdict.topic["lost"]) == (60, 1)
    assert verdict.samples["lost"] == ["NEVER"]
    group = verdict.groups["billing"]
    assert (group["consumed"], group["failed"]) == (49, 1)
    assert group["lost"] + group["unknown"] == 10
    assert report.details["verdict"] == "messages are missing or came twice"
    log.write_text('{"msgId": "A"}\n{"at": 5}\nhello\n')
    with pytest.raises(UsageError, match="3 lines lack msgId, at"):
        reconcile(spark, job)


def test_digests_by_spark_are_those_of_the_replicas(spark: SparkSession, tmp_path: Path) -> None:
    log = make_log(300, seed=4)
    at = log.starts[100] + 95
    roots = [
        write_store(tmp_path / "a", log, confirmed=log.end),
        write_store(tmp_path / "b", log, confirmed=log.end, flips=(at,)),
    ]
    replicas = [StoreReplica(root.name, str(root)) for root in roots]
    digester = spark_digester(spark, {each.shape.name: each for each in replicas})
    by_spark = run_audit(replicas, block_bytes=4096, digester=digester)
    alone = run_audit(replicas, block_bytes=4096)
    assert by_spark.findings == alone.findings
    assert [finding.low for finding in alone.findings] == [at]
