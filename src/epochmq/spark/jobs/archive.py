"""Job `archive`: copies topics to a table exactly once, up to now or continuously.

The next offsets are stored in the table itself, in the transaction that contains the files, so no
separate checkpoint can be lost or disagree. A run first claims the table by a transaction without
files, which makes the next commit of every older run fail; then it deletes uncommitted files of
earlier runs. Each batch plans ranges of queue offsets, lets tasks write them as Parquet files, and
commits. After a crash at any point, the next run continues from the table's last transaction.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from epochmq.base.errors import NotFound, NotReachable, Refused, UsageError
from epochmq.model.names import check_topic
from epochmq.model.queue_offsets import by_topic, from_topics, queue_text
from epochmq.model.topic import MessageQueue
from epochmq.runtime.tls import OutgoingTls
from epochmq.spark.jobs import archive_plan as plan
from epochmq.spark.jobs.archive_plan import Positions, Range
from epochmq.spark.jobs.archive_run import InProcess, OnSpark, Runner, TaskSource, joined
from epochmq.spark.jobs.archive_task import TaskResult, Work, dead_schema_of, schema_of
from epochmq.spark.jobs.framework import DEFAULT_MASTER, JobStop, spark_session
from epochmq.spark.jobs.job_report import DRY_RUN, CheckpointLock, JobReport, Progress, no_progress
from epochmq.spark.typed import ERROR, NOT_TYPED, Typing, check_names
from epochmq.tables.archive_rows import file_spans
from epochmq.tables.archive_table import STORE_DATE, Offsets, Times, batch_of
from epochmq.tables.expiry import expired
from epochmq.tables.iceberg import DEFAULT_NAME
from epochmq.tables.opening import AnyTable, format_at, open_table, paths_of
from epochmq.tables.storage import is_local, local_path

NEEDED = ("topic", "queueId", "queueOffset", "brokerName", "storeTimestamp", "msgId")
"""Columns that every archive has, whatever was selected: position, time and message id."""
MAX_ROWS = 1_000_000
"""The most rows of one batch; a batch has a fixed cost of about 0.2 s."""
BELIEVED_AFTER_S = 15.0
"""How long a queue must look shorter than its archived part before the job reports an error.

A new master may report less for a moment.
"""
NO_SPARK = "none"
POLL_S = 0.2
EXPIRE_EVERY_S = 3_600.0
VACUUM_HOURS = 24.0
"""The age of files that the table no longer uses before they are deleted, after an expiry."""

OnStep = Callable[[str], None]
"""Called with the current step of a run: claimed, planned, written, dead, committed, expired,
compacting, compacted.
"""


@dataclass(frozen=True)
class ArchiveOptions:
    """What to archive, where to, and how."""

    name_server: str
    topics: tuple[str, ...]
    table: str
    format: str | None = None
    """delta, iceberg or parquet; by default the table's format, or delta for a new table."""
    app: str | None = None
    until_now: bool = True
    interval_s: float = 30.0
    """Seconds between the starts of two batches of a stream, unless more rows are waiting."""
    start: str = "earliest"
    """earliest or latest: where an archive without a transaction begins."""
    max_rows: int = MAX_ROWS
    tasks: int | None = None
    columns: tuple[str, ...] | None = None
    properties: str = "map"
    compression: str = "zstd"
    typing: Typing = NOT_TYPED
    allow_loss: bool = False
    compact_every: int = 0
    """The number of batches between two compactions; 0 for never."""
    keep_days: int = 0
    """Rows whose store time is older than so many whole days (UTC) are removed; 0 keeps all."""
    name: str = DEFAULT_NAME
    catalog: str | None = None
    checkpoint: str | None = None
    read_from: str = "auto"
    """Which replicas serve the messages: auto, master or follower."""
    failover_timeout_ms: int = 60_000
    tls: OutgoingTls | None = None

    @property
    def owner(self) -> str:
        """The owner of the table, by default from the topics."""
        return self.app or "archive:" + ",".join(sorted(self.topics))

    @property
    def dead_table(self) -> str:
        """The table for messages whose bodies cannot be parsed; an Iceberg one is in the same
        warehouse.
        """
        return self.table if self.kind == "iceberg" else f"{self.table.rstrip('/')}_dead"

    @property
    def kind(self) -> str:
        """The table's format."""
        if self.format or self.catalog:
            return self.format or "iceberg"
        return format_at(self.table) or "delta"

    def chosen(self) -> tuple[str, ...] | None:
        """Return the selected columns, together with the ones that an archive needs."""
        if self.columns is None:
            return None
        needed = (*NEEDED, "body") if self.typing.format else NEEDED
        return (*self.columns, *(each for each in needed if each not in self.columns))


def check(options: ArchiveOptions) -> None:
    """Raise `UsageError` for invalid options, before anything is changed."""
    if not options.topics:
        raise UsageError("name at least one topic")
    for topic in options.topics:
        try:
            check_topic(topic)
        except Refused as error:
            raise UsageError(error.remark) from None
    if len(set(options.topics)) != len(options.topics):
        raise UsageError("a topic is named twice")
    if options.max_rows < 1:
        raise UsageError(f"a batch of {options.max_rows} rows is none: use 1 or more")
    if options.catalog and options.format not in (None, "iceberg"):
        raise UsageError(f"--catalog is for Iceberg tables, and this one is {options.format}")
    if options.start not in ("earliest", "latest"):
        raise UsageError(f"'{options.start}' is no place to begin: use earliest or latest")
    work = work_of(options, "", None, 0)
    typed = options.typing.fields()
    plain = schema_of(work).names[: -1 - len(typed)]
    check_names(typed, [*plain, ERROR, STORE_DATE])


def work_of(options: ArchiveOptions, root: str, dead_root: str | None, batch: int) -> Work:
    """Return the parameters of the tasks."""
    return Work(
        batch,
        root,
        dead_root,
        options.chosen(),
        options.properties,
        options.compression,
        options.typing,
    )


def run_archive(
    options: ArchiveOptions,
    *,
    master: str = DEFAULT_MASTER,
    conf: dict[str, str] | None = None,
    spark: Any = None,
    dry_run: bool = False,
    progress: Progress = no_progress,
    on_step: OnStep = lambda _step: None,
) -> JobReport:
    """Run the archive job and return its report; `spark` is a session to use instead of `master`.

    With `dry_run` nothing is written. `on_step` is called at each step of a run.
    """
    from epochmq.spark.spark_cluster import Cluster

    check(options)
    with ExitStack() as stack:
        cluster = stack.enter_context(
            Cluster(
                options.name_server,
                failover_timeout_ms=options.failover_timeout_ms,
                tls=options.tls,
            )
        )
        if dry_run:
            return rehearse(options, cluster)
        # A wrong address or topic must leave nothing behind, not even a lock.
        cluster.bounds_of(list(options.topics), master=True)
        stack.enter_context(locked(options))
        archive = Archive(options, cluster, progress, on_step)
        archive.open()
        runner = stack.enter_context(runner_for(options, master, conf, spark))
        stop = stack.enter_context(JobStop())
        return archive.run(runner, stop)


@contextmanager
def runner_for(
    options: ArchiveOptions, master: str, conf: dict[str, str] | None, spark: Any
) -> Iterator[Runner]:
    """Yield the runner of the tasks: Spark, or this process."""
    if master.startswith("sc://") or (spark is not None and not hasattr(spark, "_jsc")):
        raise UsageError(
            "archive does not run through Spark Connect: start it where the cluster is, with"
            " --master spark://HOST:PORT or local[*]"
        )
    source = TaskSource(
        options.name_server,
        options.failover_timeout_ms,
        options.allow_loss,
        options.tls,
        options.read_from,
    )
    if spark is None and master == NO_SPARK:
        yield InProcess(source)
        return
    session = nullcontext(spark) if spark is not None else spark_session("archive", master, conf)
    with session as found:
        yield OnSpark(source, found, options.tasks)


def locked(options: ArchiveOptions) -> Any:
    """Return the lock of this archive; in an object store there is none, only the claim."""
    if options.checkpoint:
        return CheckpointLock(Path(options.checkpoint), "archive")
    if not is_local(options.table):
        return nullcontext()
    return CheckpointLock(local_path(options.table) / "_checkpoint", "archive")


def rehearse(options: ArchiveOptions, cluster: Any) -> JobReport:
    """Report what a run would archive, by topic and queue (dry run)."""
    report = JobReport("archive")
    bounds = cluster.bounds_of(list(options.topics), master=True)
    found = None
    with suppress(NotFound):  # a table that the run would create
        table = open_table(
            options.table, options.format, name=options.name, catalog=options.catalog
        )
        found = table.last_batch(options.owner)
    positions = from_topics(found[1]) if found else {}
    begin = plan.starting(bounds, positions, options.start == "latest")
    lost = plan.gaps(bounds, begin)
    for each in plan.backlog(bounds, begin):
        report.add_range(each.queue.topic, queue_text(each.queue), each.start, each.end)
        report.rows += len(each)
    report.details["table"] = f"{options.kind} {options.table}"
    report.details["batches"] = -(-report.rows // options.max_rows)
    report.details["lost"] = [str(each) for each in lost]
    return report.finish(DRY_RUN)


class Archive:
    """One run of the archive job."""

    def __init__(
        self, options: ArchiveOptions, cluster: Any, progress: Progress, on_step: OnStep
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._progress = progress
        self._step = on_step
        self.report = JobReport("archive")
        self._table: AnyTable
        self._dead: AnyTable | None = None
        self._positions: Positions = {}
        self._batch = 0
        self._cleaned = 0
        self._files = 0
        self._lost: list[str] = []
        self._newest: Times = {}
        self._begin: Positions = {}
        self._expires_at_s = 0.0
        self._older: frozenset[MessageQueue] = frozenset()
        """Queues whose begin an older version did not store."""
        self._total: int | None = None

    # Opening ---------------------------------------------------------------------------------

    def open(self) -> None:
        """Open or create the table, check its owner, claim it, and delete uncommitted files."""
        options, owner = self._options, self._options.owner
        bounds = self._cluster.bounds_of(list(options.topics), master=True)
        work = work_of(options, "", None, 0)
        self._table = self._opened(options.table, options.name, schema_of(work))
        if options.typing.format:
            name = f"{options.name}_dead"
            self._dead = self._opened(options.dead_table, name, dead_schema_of(work))
        found = self._table.last_batch(owner)
        self._batch, known = (found[0], from_topics(found[1])) if found else (0, {})
        if self._table.mark is not None:
            self._newest = dict(self._table.mark.newest)
            self._begin = from_topics(self._table.mark.begin)
            self._older = frozenset(known.keys() - self._begin.keys())
        recreated = self._cluster.recreated(bounds, known, self._newest)
        plan.check_same_topics(recreated, known)
        latest = options.start == "latest" and found is None
        self._positions = plan.starting(bounds, known, latest)
        added = self._table.evolve(schema_of(work))
        if added:
            self.report.details["newColumns"] = added
        self._table.claim(owner, by_topic(self._positions), self._newest_now(), self._begin_now())
        self._step("claimed")
        orphans = remove_orphans(self._table, self._batch)
        if self._dead is not None:
            orphans += self._claim_dead(self._dead, work)
        self.report.details["orphans"] = orphans
        self._cleaned = self._batch

    def _opened(self, uri: str, name: str, schema: Any) -> AnyTable:
        return open_table(
            uri,
            self._options.kind,
            schema=schema,
            app=self._options.owner,
            name=name,
            catalog=self._options.catalog,
        )

    def _claim_dead(self, dead: AnyTable, work: Work) -> int:
        found = dead.last_batch(self._options.owner)
        dead.evolve(dead_schema_of(work))
        dead.claim(self._options.owner, found[1] if found else {})
        return remove_orphans(dead, found[0] if found else 0)

    @property
    def table(self) -> AnyTable:
        """The open table."""
        return self._table

    @property
    def positions(self) -> Positions:
        """The next queue offset to archive, by queue."""
        return dict(self._positions)

    # Running ---------------------------------------------------------------------------------

    def run(self, runner: Runner, stop: JobStop) -> JobReport:
        """Run all batches and return the report; a stream runs until it is stopped."""
        options = self._options
        self._finish_half_done(runner)
        ends = self._bounds() if options.until_now else None
        while not stop.asked:
            began = time.monotonic()
            taken = self._next(runner, ends)
            self._maybe_expire()
            if taken:
                self._maybe_compact()
            elif ends is not None:
                break
            if ends is None and taken < options.max_rows:
                wait(began + options.interval_s, stop)
        self._conclude()
        return self.report.finish("interrupted" if stop.asked and options.until_now else "done")

    def _finish_half_done(self, runner: Runner) -> None:
        """Repeat a batch whose dead letters are committed and whose rows are not."""
        found = self._dead.last_batch(self._options.owner) if self._dead is not None else None
        if found and found[0] == self._batch + 1:
            ends = from_topics(found[1])
            self._do(runner, plan.up_to(self._positions, ends, self._bounds()))

    def _next(self, runner: Runner, ends: plan.Bounds | None) -> int:
        """Plan and run one batch; returns how many rows it archived."""
        bounds = ends if ends is not None else self._bounds()
        self._positions = plan.starting(bounds, self._positions)
        lost = plan.gaps(bounds, self._positions)
        plan.check_gaps(lost, self._options.allow_loss)
        for gap in lost:
            self._lost.append(str(gap))
            self._positions[gap.queue] = gap.end
        waiting = plan.backlog(bounds, self._positions)
        if self._total is None and ends is not None:
            self._total = sum(map(len, waiting))
        ranges = plan.share(waiting, self._options.max_rows)
        if ranges:
            self._do(runner, ranges)
        return sum(map(len, ranges))

    def _do(self, runner: Runner, ranges: list[Range]) -> None:
        batch = self._batch + 1
        dead_root = self._dead.root if self._dead is not None else None
        work = work_of(self._options, self._table.root, dead_root, batch)
        self._step("planned")
        written = joined(runner.run(work, plan.deal(ranges, runner.tasks)))
        self._step("written")
        offsets = by_topic(plan.advanced(self._positions, ranges))
        owner = self._options.owner
        # Commit the dead letters first: they contain the batch's end, so that it can be repeated.
        if self._dead is not None and written.dead:
            self._dead.commit(owner, batch, offsets, written.dead)
            self._step("dead")
        self._table.commit(
            owner, batch, offsets, written.files, self._newest_now(), self._begin_now()
        )
        self._step("committed")
        self._batch, self._positions = batch, plan.advanced(self._positions, ranges)
        self._count(ranges, written)

    def _begin_now(self) -> Offsets:
        """Return the first queue offset of each queue; a queue that is new begins where it is."""
        for queue, position in self._positions.items():
            if queue not in self._older:
                self._begin.setdefault(queue, position)
        return by_topic(self._begin)

    def _newest_now(self) -> Times:
        """Return the newest store time (ms) of each topic, which never decreases."""
        for topic, ms in self._cluster.newest(self._options.topics).items():
            self._newest[topic] = max(ms, self._newest.get(topic, 0))
        return dict(self._newest)

    def _count(self, ranges: list[Range], written: TaskResult) -> None:
        report = self.report
        for each in ranges:
            report.add_range(each.queue.topic, queue_text(each.queue), each.start, each.end)
        report.rows += written.rows
        report.bytes += sum(each.bytes for each in written.files)
        self._files += len(written.files) + len(written.dead)
        for name, count in (
            ("rawBytes", written.bytes),
            ("deadLetters", sum(each.rows for each in written.dead)),
            ("missing", written.missing),
        ):
            known = report.details.get(name, 0)
            report.details[name] = count + (known if isinstance(known, int) else 0)
        self._progress(report.rows, self._total, f"{report.rows:,} rows, batch {self._batch}")

    def _bounds(self) -> plan.Bounds:
        """Return bounds that are consistent with the archived offsets; wait while brokers change
        roles.
        """
        deadline = time.monotonic() + max(
            BELIEVED_AFTER_S, self._options.failover_timeout_ms / 1000
        )
        believed = time.monotonic() + BELIEVED_AFTER_S
        mine = {
            queue: at
            for queue, at in self._positions.items()
            if queue.topic in self._options.topics
        }
        while True:
            bounds: plan.Bounds = self._cluster.bounds_of(list(self._options.topics), master=True)
            gone = plan.missing(bounds, mine)
            now = time.monotonic()
            if gone and now > deadline:
                raise NotReachable(
                    f"no broker serves {gone[0]} now, which the table has; try later"
                )
            try:
                plan.check_alive(bounds, mine)
                if not gone:
                    return bounds
            except UsageError:
                if now > believed:
                    raise
            time.sleep(POLL_S)

    # Tidying ---------------------------------------------------------------------------------

    def _maybe_compact(self) -> None:
        every = self._options.compact_every
        if every and self._batch % every == 0:
            self._remove_failed_tries()
            self._step("compacting")
            done = self._table.compact()
            self.report.details["compacted"] = done
            self._step("compacted")

    def _maybe_expire(self) -> None:
        """Remove the rows of expired days, once an hour, and the files of earlier removals."""
        keep, now = self._options.keep_days, time.monotonic()
        if not keep or now < self._expires_at_s:
            return
        self._expires_at_s = now + EXPIRE_EVERY_S
        before = datetime.now(UTC).date() - timedelta(days=keep)
        done = dict.fromkeys(("files", "rows"), 0)
        for table in (self._table, self._dead):
            if table is None:
                continue
            gone, begins = expired(table.data_files(), before, partial(file_spans, table.storage))
            if not gone:
                continue
            if table is self._table:
                begin = {**self._begin, **begins}
                table.remove(gone, by_topic(begin))
                self._begin, self._older = begin, self._older - begins.keys()
                self._step("expired")
            else:
                table.remove(gone, {})
            done["files"] += len(gone)
            done["rows"] += sum(file.rows for file in gone)
            table.vacuum(VACUUM_HOURS)
        if done["files"]:
            self.report.details["expired"] = {**done, "before": before.isoformat()}

    def _conclude(self) -> None:
        self._remove_failed_tries()
        self.report.details.update(
            table=f"{self._table.format} {self._options.table}",
            batch=self._batch,
            files=self._files,
            lost=self._lost,
        )

    def _remove_failed_tries(self) -> None:
        """Delete files of failed task attempts: uncommitted files of this run's batches."""
        for table in (self._table, self._dead):
            if table is not None:
                remove_tries(table, self._cleaned, self._batch)
        self._cleaned = self._batch


def remove_orphans(table: AnyTable, last: int) -> int:
    """Delete files of batches that were never committed; only safe after the claim."""
    gone = [path for path in table.storage.find() if (batch_of(path) or 0) > last]
    for path in gone:
        table.storage.remove(path)
    return len(gone)


def remove_tries(table: AnyTable, after: int, last: int) -> int:
    """Delete uncommitted files of the batches `after` (exclusive) to `last`."""
    candidates = [path for path in table.storage.find() if after < (batch_of(path) or 0) <= last]
    used = set(paths_of(table)) if candidates else set()
    gone = [path for path in candidates if path not in used]
    for path in gone:
        table.storage.remove(path)
    return len(gone)


def wait(until_s: float, stop: JobStop) -> None:
    """Sleep until `until_s` (monotonic seconds), or until the job is stopped."""
    while not stop.asked and (left := until_s - time.monotonic()) > 0:
        time.sleep(min(POLL_S, left))
