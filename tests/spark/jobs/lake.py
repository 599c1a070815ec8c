"""Topics in memory, and what a table of them must hold."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from epochmq.model import record
from epochmq.model.host import pack
from epochmq.model.record import store_time_at
from epochmq.model.topic import MessageQueue
from epochmq.spark.jobs.archive import Archive, ArchiveOptions
from epochmq.spark.jobs.archive_plan import Range
from epochmq.spark.jobs.archive_run import Runner
from epochmq.spark.jobs.archive_task import TaskResult, Work, archive_ranges
from epochmq.spark.jobs.job_report import no_progress
from epochmq.tables.opening import AnyTable, arrow_dataset, open_table

BROKER = "broker-a"
HOST = pack("127.0.0.1", 10911)
DAY_MS = 86_400_000
START_MS = 1_700_000_000_000
FORMATS = ("delta", "iceberg", "parquet")


def one_record(topic: str, queue_id: int, offset: int, body: bytes, at_ms: int = START_MS) -> bytes:
    """A message as the broker stores it, with the id `topic-queue-offset`."""
    properties = f"UNIQ_KEY\x01{topic}-{queue_id}-{offset}\x02TAGS\x01t{offset % 3}\x02".encode()
    return record.encode(
        topic.encode(), body, properties, queue_id, 0, offset, 0, 0,
        at_ms, HOST, at_ms, HOST, 0, 0,
    )  # fmt: skip


@dataclass
class Topic:
    """Queues that grow; `low` is what retention has left."""

    name: str
    queues: list[list[bytes]]
    low: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.low = self.low or [0] * len(self.queues)

    def add(self, count: int, body: bytes = b"{}", at_ms: int = START_MS) -> None:
        """`count` messages to each queue."""
        for number, queue in enumerate(self.queues):
            start = len(queue)
            queue += [
                one_record(self.name, number, at, body, at_ms) for at in range(start, start + count)
            ]

    @property
    def ids(self) -> set[str]:
        """Of all messages ever added."""
        return {
            f"{self.name}-{number}-{at}"
            for number, queue in enumerate(self.queues)
            for at in range(len(queue))
        }


def topic(name: str = "T", queues: int = 2, count: int = 0) -> Topic:
    """A topic with `count` messages in each queue."""
    made = Topic(name, [[] for _ in range(queues)])
    made.add(count)
    return made


class FakeCluster:
    """What an archive asks of a cluster, answered from memory."""

    def __init__(self, *topics: Topic) -> None:
        self.topics = {each.name: each for each in topics}

    def bounds_of(
        self, names: list[str], *, master: bool = False
    ) -> dict[MessageQueue, tuple[int, int]]:
        return {
            MessageQueue(name, BROKER, number): (self.topics[name].low[number], len(queue))
            for name in names
            for number, queue in enumerate(self.topics[name].queues)
        }

    def newest(self, topics: Sequence[str]) -> dict[str, int]:
        """Of messages that `one_record` made, which all have one time or the next topic's."""
        found = {}
        for name in topics:
            times = [store_time_at(each, 0) for q in self.topics[name].queues for each in q[-1:]]
            if times:
                found[name] = max(times)
        return found

    def recreated(
        self,
        bounds: Mapping[MessageQueue, tuple[int, int]],
        positions: Mapping[MessageQueue, int],
        newest: Mapping[str, int],
    ) -> list[MessageQueue]:
        return [
            queue
            for queue, (low, high) in bounds.items()
            if low < positions.get(queue, 0) <= high
            and queue.topic in newest
            and store_time_at(self.topics[queue.topic].queues[queue.queue_id][low], 0)
            > newest[queue.topic]
        ]

    def fetch(self, one: Range) -> Iterator[bytes]:
        queue = self.topics[one.queue.topic].queues[one.queue.queue_id]
        for at in range(one.start, one.end, 7):
            yield b"".join(queue[at : min(at + 7, one.end)])


class FakeRunner(Runner):
    """Tasks run here, one after the other."""

    def __init__(self, cluster: FakeCluster, tasks: int = 2) -> None:
        self.cluster = cluster
        self.tasks = tasks

    def run(self, work: Work, deals: Sequence[Sequence[Range]]) -> list[TaskResult]:
        return [
            archive_ranges(work, number, deal, self.cluster.fetch)
            for number, deal in enumerate(deals)
        ]


class NeverAsked:
    """In place of signals."""

    asked = False


def archive(options: ArchiveOptions, cluster: FakeCluster, on_step: Any = None, **more: Any) -> Any:
    """One whole run; the report."""
    run = Archive(options, cluster, no_progress, on_step or (lambda _step: None))
    run.open()
    return run.run(more.get("runner") or FakeRunner(cluster), more.get("stop") or NeverAsked())


def content(uri: str, column: str = "msgId", **more: Any) -> Counter[Any]:
    """How often each value of a column is in the table."""
    table = open_table(uri, **more)
    return Counter(arrow_dataset(table).to_table(columns=[column])[column].to_pylist())


def names_on_disk(table: AnyTable) -> set[str]:
    """All Parquet files under the table, committed or not."""
    return set(table.storage.find())
