"""Runs the tasks of an archive in Spark's executors, or in this process."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from epochmq.base.errors import UsageError
from epochmq.base.ports import Buffer
from epochmq.runtime.tls import OutgoingTls
from epochmq.spark.freeze import freeze_once
from epochmq.spark.jobs.archive_plan import Range
from epochmq.spark.jobs.archive_task import FETCH_BYTES, Fetch, TaskResult, Work, archive_ranges
from epochmq.spark.jobs.framework import translated


@dataclass(frozen=True)
class TaskSource:
    """The connection settings with which a task reads from the cluster."""

    name_server: str
    failover_timeout_ms: int
    allow_loss: bool = False
    tls: OutgoingTls | None = None
    """Certificate files must have the same paths on every executor."""
    read_from: str = "auto"
    """The replicas that serve the messages, as the option `readFrom` of Spark's source."""

    def __post_init__(self) -> None:
        from epochmq.spark.range_read import READ_FROM

        if self.read_from not in READ_FROM:
            known = ", ".join(READ_FROM)
            raise UsageError(f"messages cannot be read from '{self.read_from}': use {known}")


class Runner(Protocol):
    """Runs the tasks of one batch; when a task finally fails, the batch fails."""

    tasks: int
    """The number of tasks that run at one time."""

    def run(self, work: Work, deals: Sequence[Sequence[Range]]) -> list[TaskResult]:
        """Run the tasks and return what each one wrote."""


ReadVia = Callable[[Range, Fetch], Iterable[Buffer]]
"""Returns the raw records of a range, from somewhere else or by the `Fetch`."""


def run_task(
    source: TaskSource,
    work: Work,
    deal: tuple[int, Sequence[Range]],
    read: ReadVia | None = None,
) -> TaskResult:
    """Run one task with its own connection to the cluster."""
    from epochmq.spark.spark_cluster import Cluster

    timeout_ms = source.failover_timeout_ms
    with Cluster(source.name_server, failover_timeout_ms=timeout_ms, tls=source.tls) as cluster:
        from_cluster = partial(fetch, source, cluster)
        own = from_cluster if read is None else lambda one: read(one, from_cluster)
        return archive_ranges(work, deal[0], deal[1], own)


def fetch(source: TaskSource, cluster: Any, one: Range) -> Iterator[Buffer]:
    """Yield the raw records of a range."""
    on_lost = (lambda _lost: None) if source.allow_loss else None
    for chunk in cluster.read(
        one.queue,
        one.start,
        one.end,
        max_bytes=FETCH_BYTES,
        read_from=source.read_from,
        on_lost=on_lost,
    ):
        yield chunk.records


class InProcess:
    """Runs tasks without Spark: for small topics, where a JVM's start would dominate.

    `read` returns the records of a range; by default they are fetched from the cluster.
    """

    tasks = 1

    def __init__(self, source: TaskSource, read: ReadVia | None = None) -> None:
        self._source = source
        self._read = read

    def run(self, work: Work, deals: Sequence[Sequence[Range]]) -> list[TaskResult]:
        return [run_task(self._source, work, deal, self._read) for deal in enumerate(deals)]


class OnSpark:
    """Runs one Spark task for each deal; only ranges and file names pass through the JVM."""

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
    """Run a task after `freeze_once`, since Spark's worker collects garbage after every task."""
    import epochmq.spark.decode
    import epochmq.spark.spark_cluster  # noqa: F401

    freeze_once()
    written: TaskResult = task(deal)
    return written


def joined(parts: Iterable[TaskResult]) -> TaskResult:
    """Combine the results of all tasks."""
    whole = TaskResult()
    for each in parts:
        whole.files += each.files
        whole.dead += each.dead
        whole.rows += each.rows
        whole.bytes += each.bytes
        whole.missing += each.missing
    return whole
