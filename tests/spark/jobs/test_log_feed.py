"""New records of topics from the log: the same bytes as from the queues, or none at all."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from struct import unpack_from

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.replication.brokers import LiveBroker
from tests.spark.exporting import BROKER, home_of, masters
from tests.spark.jobs.lake import NeverAsked, content
from tests.spark.logs import V6, WALL
from tests.store.world import HOST
from tests.tiers import examples

from epochmq.base.errors import NotReachable
from epochmq.base.ports import Buffer
from epochmq.client.aio import Admin
from epochmq.client.sync import Producer
from epochmq.model.message import Message
from epochmq.model.record import MAGIC_BLANK, StoredMessage, decode, decode_all, encode
from epochmq.model.sys_flag import INNER_BATCH, TX_COMMIT, TX_PREPARED, TX_ROLLBACK
from epochmq.model.topic import MessageQueue, TopicConfig
from epochmq.spark.jobs import archive_run
from epochmq.spark.jobs.archive_plan import Range
from epochmq.spark.jobs.lake_service import LakeOptions, lake_service
from epochmq.spark.jobs.log_feed import KeptRecords, LogFeed, QueuePiece, pieces_of
from epochmq.spark.log_export import LogExport
from epochmq.spark.log_learner import EpochStart
from epochmq.spark.log_scan import RecordRun, scan
from epochmq.testing import MiniCluster
from epochmq.testing.mini_cluster import CLUSTER

QUEUE = MessageQueue("T", BROKER, 1)
OTHER = MessageQueue("U", "broker-b", 1)


def body(start: int, end: int) -> bytes:
    return b"".join(b"%d," % number for number in range(start, end))


class QueueModel:
    """The pieces that were added since the last gap and not read yet."""

    def __init__(self) -> None:
        self.pieces: list[range] = []

    def add(self, start: int, end: int) -> None:
        if self.pieces and self.pieces[-1].stop != start:
            self.pieces.clear()
        self.pieces.append(range(start, end))

    def take(self, start: int) -> set[int]:
        self.pieces = [each for each in self.pieces if each.stop > start]
        return {number for each in self.pieces for number in each}


adds = st.tuples(st.just("add"), st.integers(0, 2), st.integers(1, 5))
takes = st.tuples(st.just("take"), st.integers(-3, 6), st.integers(1, 12))


@settings(max_examples=examples(200))
@given(st.lists(adds | takes, max_size=30))
def test_what_is_kept_is_what_was_added_without_a_gap(steps: list[tuple[str, int, int]]) -> None:
    kept, model, at = KeptRecords(), QueueModel(), 10
    kept.add(OTHER, QueuePiece(0, 2, body(0, 2)))
    for what, first, size in steps:
        if what == "add":
            at += first if first < 2 else 0
            kept.add(QUEUE, QueuePiece(at, at + size, body(at, at + size)))
            model.add(at, at + size)
            at += size
            continue
        start, end = at - 5 + first, at - 5 + first + size
        found = kept.find_range(QUEUE, start, end)
        assert start <= found.start <= found.end <= end
        assert bool(found.pieces) == (found.start < found.end)
        text = b"".join(found.pieces)
        known = model.take(start)
        assert set(range(found.start, found.end)) == known & set(range(start, end))
        assert body(found.start, found.end) in text
    kept.forget(BROKER)
    assert kept.bytes == len(body(0, 2))
    kept.keep_topics(["T"])
    assert kept.bytes == 0


def test_only_plain_records_of_the_topics_are_kept() -> None:
    rng = Random(3)
    data, expected = bytearray(b"before"), {}
    base = 1_000
    offsets: Counter[MessageQueue] = Counter()
    long = "x" * 150
    for _ in range(400):
        topic, queue_id = rng.choice(("T", "U", "other", long)), rng.randrange(3)
        flag = rng.choice((0, 0, 0, 1, TX_COMMIT, TX_PREPARED, TX_ROLLBACK, INNER_BATCH))
        queue = MessageQueue(topic, BROKER, queue_id)
        made = encode(
            topic.encode(), rng.randbytes(rng.randrange(90)), b"KEYS\x01k\x02", queue_id, 0,
            offsets[queue], base + len(data), flag, WALL, rng.choice((HOST, V6)), WALL,
            rng.choice((HOST, V6)), 0, 0,
        )  # fmt: skip
        data += made
        if topic != "other" and flag in (0, 1, TX_COMMIT):
            expected[queue, offsets[queue]] = made
        # A record that is in no queue does not use up a queue offset.
        offsets[queue] += flag not in (TX_PREPARED, TX_ROLLBACK)
    found: dict[tuple[MessageQueue, int], bytes] = {}
    (run,) = scan(bytes(data), base, base + 6, base + len(data))
    assert isinstance(run, RecordRun)
    for queue, piece in pieces_of(bytes(data), base, run, BROKER, ("T", "U", long)):
        records = split(piece.records)
        assert len(records) == piece.end - piece.start
        found |= {(queue, piece.start + n): each for n, each in enumerate(records)}
    assert found == expected


def split(records: bytes) -> list[bytes]:
    found = []
    while records:
        size = int.from_bytes(records[:4], "big")
        found.append(records[:size])
        records = records[size:]
    return found


def places(log: bytes) -> Iterator[int]:
    """Where the records of a log are; fillers are no records."""
    at = 0
    while at < len(log):
        size, magic = unpack_from(">II", log, at)
        if magic != MAGIC_BLANK:
            yield at
        at += size


class Followed:
    """A feed of one broker, and what a reader asked that broker for."""

    def __init__(self, broker: LiveBroker, bytes_max: int = 1 << 30) -> None:
        self.broker = broker
        self.away = False
        self.feed = LogFeed(lambda: [BROKER], self._export, bytes_max)
        self.topics = {each.topic for each in self.messages()}

    def _export(self, _broker: str, start: int, known: list[EpochStart]) -> LogExport:
        if self.away:
            raise NotReachable("nobody is there")
        return LogExport(lambda: home_of(self.broker), start, None, known, failover_s=1)

    def messages(self, start: int = 0) -> list[StoredMessage]:
        data = self.broker.bytes()
        return [decode(data, at) for at in places(data) if at >= start]

    async def advance(self) -> None:
        await asyncio.to_thread(self.feed.advance, self.topics)

    def check(self, start: int, *, fetched: bool = False) -> None:
        """Every queue is read from log position `start` on, and what it has is right."""
        queues: dict[MessageQueue, list[StoredMessage]] = {}
        for each in self.messages(start):
            queues.setdefault(MessageQueue(each.topic, BROKER, each.queue_id), []).append(each)
        for queue, wanted in queues.items():
            asked: list[Range] = []

            def fetch(one: Range, asked: list[Range] = asked) -> Sequence[Buffer]:
                asked.append(one)
                return [b""]

            low, high = wanted[0].queue_offset, wanted[-1].queue_offset + 1
            got = b"".join(self.feed.read(Range(queue, low, high), fetch))
            assert bool(asked) == fetched
            if not fetched:
                assert [each.body for each in decode_all(got)] == [each.body for each in wanted]


async def test_a_feed_has_what_is_new_through_changes_of_the_master(tmp_path: Path) -> None:
    async with masters(tmp_path, 2) as broker:
        one = Followed(broker)
        await one.advance()
        assert one.feed.kept.bytes == 0, "the first call only notes where the log ends"
        one.check(0, fetched=True)
        for epoch in (4, 5, 9):
            begin = broker.end
            broker.write(120)
            await one.advance()
            one.check(begin)
            one.check(begin)  # a batch that failed is read again
            await broker.lead(epoch)


async def test_too_much_at_once_is_left_to_the_brokers(tmp_path: Path) -> None:
    async with masters(tmp_path, 1) as broker:
        one = Followed(broker, bytes_max=5_000)
        await one.advance()
        begin = broker.end
        broker.write(200)
        await one.advance()
        assert one.feed.kept.bytes == 0
        one.check(begin, fetched=True)
        await one.advance()
        begin = broker.end
        broker.write(5)
        await one.advance()
        one.check(begin)


async def test_a_log_that_cannot_be_read_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with masters(tmp_path, 1) as broker:
        one = Followed(broker)
        await one.advance()
        begin = broker.end
        broker.write(20)
        one.away = True
        for _ in range(3):
            await one.advance()
        one.check(begin, fetched=True)
        assert [each.getMessage() for each in caplog.records if "not followed" in each.msg] == [
            f"the log of {BROKER} is not followed, its brokers are asked for each queue: nobody is"
            " there"
        ]
        one.away = False
        await one.advance()
        begin = broker.end
        broker.write(20)
        await one.advance()
        one.check(begin)


def test_ranges_are_completed_from_the_brokers() -> None:
    feed = LogFeed(list, lambda *_: pytest.fail("no export"))
    feed.kept.add(QUEUE, QueuePiece(10, 15, b"kept1 "))
    feed.kept.add(QUEUE, QueuePiece(15, 20, b"kept2 "))

    def fetch(one: Range) -> Iterator[bytes]:
        yield b"%d-%d " % (one.start, one.end)

    def read(start: int, end: int) -> bytes:
        return b"".join(feed.read(Range(QUEUE, start, end), fetch))

    assert read(0, 9) == b"0-9 "
    assert read(5, 25) == b"5-10 kept1 kept2 20-25 "
    assert read(10, 20) == b"kept1 kept2 "
    assert read(12, 14) == b"kept1 "
    assert read(15, 22) == b"kept2 20-22 "
    assert read(20, 22) == b"20-22 "
    assert feed.kept.bytes == 0


def test_a_lake_reads_from_the_log_alone_once_it_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Range] = []
    real = archive_run.fetch

    def fetch(source: object, cluster: object, one: Range) -> Iterator[Buffer]:
        asked.append(one)
        return real(source, cluster, one)  # type: ignore[arg-type]

    monkeypatch.setattr(archive_run, "fetch", fetch)
    with MiniCluster(brokers=3) as cluster:
        options = LakeOptions(cluster.namesrv, str(tmp_path), learner=True)
        asyncio.run(make_table(cluster.namesrv, "T"))
        with lake_service(options) as lake, Producer(cluster.namesrv, "P") as producer:
            for number in range(6):
                for _ in range(20):
                    producer.send(Message("T", b"{}"), timeout_ms=10_000)
                if number == 3:
                    cluster.kill()
                    cluster.wait_for_master()
                    producer.send(Message("T", b"{}"), timeout_ms=10_000)
                asked.clear()
                assert lake.write_all(NeverAsked()) == 20 + (number == 3)
                assert not asked or number in (0, 3), asked
        held = Counter(each.properties["UNIQ_KEY"] for each in cluster.messages("T"))
    assert len(held) == 121
    assert content(str(tmp_path / "T")) == held


async def make_table(name_server: str, topic: str) -> None:
    async with Admin(name_server) as admin:
        attributes = {"+epochmq.table": "parquet"}
        await admin.create_topic(TopicConfig(topic, 2, 2), cluster=CLUSTER, attributes=attributes)
