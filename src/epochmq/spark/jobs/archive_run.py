"""Where the tasks of an archive run: in Spark's executors, or in this process."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from epochmq.base.ports import Buffer
from epochmq.runtime.tls import OutgoingTls
from epochmq.spark.freeze import freeze_once
from epochmq.spark.jobs.archive_plan import Range
from epochmq.spark.jobs.archive_task import FETCH_BYTES, TaskResult, Work, archive_ranges
from epochmq.spark.jobs.framework import translated


@dataclass(frozen=True)
class TaskSource:
    """How a task reaches the cluster."""

    name_server: str
    failover_timeout_ms: int
    allow_loss: bool = False
    tls: OutgoingTls | None = None
    """Files lie at the same paths on every executor."""


class Runner(Protocol):
    """Runs the tasks of one batch; any of them failing for good fails the batch."""

    tasks: int
    """As many as run at one time."""

    def run(self, work: Work, deals: Sequence[Sequence[Range]]) -> list[TaskResult]:
        """What each task wrote."""


def run_task(source: TaskSource, work: Work, deal: tuple[int, Sequence[Range]]) -> TaskResult:
    """One task with a cluster of its own."""
    from epochmq.spark.spark_cluster import Cluster

    timeout_ms = source.failover_timeout_ms
    with Cluster(source.name_server, failover_timeout_ms=timeout_ms, tls=source.tls) as cluster:
        return archive_ranges(work, deal[0], deal[1], partial(fetch, source, cluster))


def fetch(source: TaskSource, cluster: Any, one: Range) -> Iterator[Buffer]:
    """The raw records of a range."""
    on_lost = (lambda _lost: None) if source.allow_loss else None
    for chunk in cluster.read(
        one.queue,
        one.start,
        one.end,
        max_bytes=FETCH_BYTES,
        on_lost=on_lost,
    ):
        yield chunk.records


class InProcess:
    """No Spark at all: for little topics, where starting a JVM would take longest."""

    tasks = 1

    def __init__(self, source: TaskSource) -> None:
        self._source = source

    def run(self, work: Work, deals: Sequence[Sequence[Range]]) -> list[TaskResult]:
        return [run_task(self._source, work, deal) for deal in enumerate(deals)]


class OnSpark:
    """One task of Spark for each deal; only ranges and file names go through the JVM."""

    def __init__(self, source: TaskSource, session: Any, tasks: int | None = None) -> None:
        self._source = source
        self._session = session
        self.tasks = tasks or int(session.sparkContext.defaultParallelism)

    def run(self, work: Work, deals: Sequence[Sequence[Range]]) -> list[TaskResult]:
        task = partial(run_task, self._source, work)
        with translated():
            numbered = self._session.sparkContext.parallelize(list(enumerate(deals)), len(deals))
            return list(numbered.map(partial(_frozen, task)).collect())


def _frozen(task: Any, deal: tuple[int, Sequence[Range]]) -> TaskResult:
    """Spark's worker collects garbage after every task: keep it from looking at our modules."""
    import epochmq.spark.decode
    import epochmq.spark.spark_cluster  # noqa: F401

    freeze_once()
    written: TaskResult = task(deal)
    return written


def joined(parts: Iterable[TaskResult]) -> TaskResult:
    """What all tasks wrote."""
    whole = TaskResult()
    for each in parts:
        whole.files += each.files
        whole.dead += each.dead
        whole.rows += each.rows
        whole.bytes += each.bytes
        whole.missing += each.missing
    return whole
