"""Job `verify`: checks an archive's table against itself, its topics, and the brokers' replicas.

Against itself: the digests of metadata and data files, the checksums of pages, the numbers of rows,
the checksums of bodies, and that each queue offset up to the archived end is in the table once.
Against the topics: every row equals the message that brokers have at its queue offset. Against the
replicas: the job `audit` for each broker group of the table.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from epochmq.base.errors import EpochError, NotFound, UsageError
from epochmq.base.ports import Buffer
from epochmq.model.queue_offsets import from_topics
from epochmq.model.topic import MessageQueue
from epochmq.spark.columns import ARROW
from epochmq.spark.jobs.archive_plan import Range
from epochmq.spark.jobs.archive_run import TaskSource
from epochmq.spark.jobs.job_report import DRY_RUN, JobReport, Progress, no_progress
from epochmq.spark.jobs.table_check import SHOWN, FileCheck, check_file
from epochmq.tables.archive_rows import Span
from epochmq.tables.archive_table import DataFile, TransactionMark
from epochmq.tables.iceberg import DEFAULT_NAME
from epochmq.tables.opening import AnyTable, changed_metadata, open_table
from epochmq.tables.storage import Storage

THREADS = 4
"""Files that are checked at a time without Spark."""
LOOKS_MAX = 5
"""How often the list of files is read again while an archive commits to the table."""

Audits = Callable[[str], list[str]]
"""Compares the replicas of a broker group and returns the problems."""


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """The table, and what to compare it with."""

    table: str
    source: TaskSource | None = None
    """How to reach the brokers; None compares the table with itself only."""
    audits: Audits | None = None
    name: str = DEFAULT_NAME
    catalog: str | None = None


@dataclass
class TableState:
    """One consistent state of a table: its last transaction and the files of that version."""

    table: AnyTable
    mark: TransactionMark | None
    files: list[DataFile]


@dataclass
class Coverage:
    """Which queue offsets are in the table."""

    missing: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    beyond: list[str] = field(default_factory=list)
    """Rows at queue offsets that no transaction has archived."""


def verify(
    options: VerifyOptions,
    *,
    spark: Any = None,
    dry_run: bool = False,
    progress: Progress = no_progress,
) -> JobReport:
    """Check the table and return a report; `details["problems"]` is empty for a sound table.

    With `spark` the files are checked by Spark tasks, otherwise by threads of this process.
    """
    report = JobReport("verify")
    problems = [f"{path} is damaged" for path in changed_metadata(options.table, options.catalog)]
    try:
        table = open_table(options.table, name=options.name, catalog=options.catalog)
        dead = dead_table(options, table)
        state = read_state(options, options.name)
    except EpochError as error:
        if isinstance(error, NotFound | UsageError) and not problems:
            raise
        report.details |= {"problems": [*problems, str(error)]}
        return report.finish("damaged")
    if dry_run:
        report.rows = sum(each.rows for each in state.files)
        report.bytes = sum(each.bytes for each in state.files)
        report.details["files"] = len(state.files)
        return report.finish(DRY_RUN)
    checks, state = check_stable(options, options.name, state, spark, progress)
    dead_checks = run_checks(dead, dead.data_files(), options.source, spark) if dead else {}
    problems += judge(state, checks, dead_checks)
    if options.audits is not None:
        for broker in sorted(
            {span.queue.broker_name for each in checks.values() for span in each.spans}
        ):
            problems += [f"replicas of {broker}: {text}" for text in options.audits(broker)]
    every = [*checks.values(), *dead_checks.values()]
    report.rows = sum(each.rows for each in every)
    report.bytes = sum(each.bytes for each in every)
    report.details |= {
        "table": f"{table.format} {options.table}",
        "files": len(every),
        "withoutDigest": sum(not file.sha256 for file in state.files),
        "damagedFiles": sorted(each.path for each in every if each.damage),
        "comparedWithTopic": sum(each.compared for each in every),
        "expiredInTopic": sum(each.expired for each in every),
        "problems": problems,
    }
    return report.finish("damaged" if problems else "sound")


def dead_table(options: VerifyOptions, table: AnyTable) -> AnyTable | None:
    """Return the table of the messages that the archive could not parse; None without one."""
    iceberg = table.format == "iceberg"
    uri = options.table if iceberg else f"{options.table.rstrip('/')}_dead"
    name = f"{options.name}_dead" if iceberg else options.name
    try:
        return open_table(uri, name=name, catalog=options.catalog)
    except (NotFound, UsageError):
        return None


def read_state(options: VerifyOptions, name: str) -> TableState:
    """Return a consistent state of the table, also while an archive commits to it."""
    for _ in range(LOOKS_MAX):
        table = open_table(options.table, name=name, catalog=options.catalog)
        files = table.data_files()
        again = open_table(options.table, name=name, catalog=options.catalog)
        if again.mark == table.mark:
            return TableState(again, again.mark, files)
    raise EpochError(
        f"{options.table}: an archive commits to the table faster than its list of files is read;"
        " verify it after the archive has stopped"
    )


def check_stable(
    options: VerifyOptions, name: str, state: TableState, spark: Any, progress: Progress
) -> tuple[dict[str, FileCheck], TableState]:
    """Check all files of a state; files that a compaction replaces meanwhile are checked too.

    Returns the checks by path, and the state that they belong to.
    """
    known: dict[str, FileCheck] = {}
    for _ in range(LOOKS_MAX):
        fresh = [each for each in state.files if each.path not in known]
        known |= run_checks(state.table, fresh, options.source, spark, progress)
        checks = {each.path: known[each.path] for each in state.files}
        if not any(each.is_missing for each in checks.values()):
            break
        later = read_state(options, name)
        if {each.path for each in later.files} == set(checks):
            break
        state = later
        known = {path: each for path, each in known.items() if not each.is_missing}
    return {each.path: known[each.path] for each in state.files if each.path in known}, state


def run_checks(
    table: AnyTable,
    files: Sequence[DataFile],
    source: TaskSource | None,
    spark: Any = None,
    progress: Progress = no_progress,
) -> dict[str, FileCheck]:
    """Check files by Spark tasks or by threads, and return the results by path."""
    columns = [name for name in table.schema().names if name in ARROW]
    task = partial(check_part, table.storage.root, columns, source)
    parts: Iterable[list[FileCheck]]
    found: dict[str, FileCheck] = {}
    with ExitStack() as stack:
        if spark is not None:
            count = max(1, min(len(files), spark.sparkContext.defaultParallelism * 4))
            parts = (
                spark.sparkContext.parallelize([[each] for each in files], count)
                .map(task)
                .collect()
            )
        else:
            pool = stack.enter_context(ThreadPoolExecutor(THREADS))
            parts = pool.map(task, ([each] for each in files))
        for part in parts:
            found |= {each.path: each for each in part}
            progress(len(found), len(files), f"{len(found):,} of {len(files):,} files")
    return found


def check_part(
    root: str, columns: Sequence[str], source: TaskSource | None, files: Sequence[DataFile]
) -> list[FileCheck]:
    """Check files in this thread or Spark task, with its own connection to the brokers."""
    storage = Storage(root)
    if source is None:
        return [check_file(storage, each, columns, None) for each in files]
    from epochmq.spark.spark_cluster import Cluster

    timeout_ms = source.failover_timeout_ms
    with Cluster(source.name_server, failover_timeout_ms=timeout_ms, tls=source.tls) as cluster:
        read = partial(read_topic, cluster)
        return [check_file(storage, each, columns, read) for each in files]


def read_topic(cluster: Any, one: Range) -> Iterator[Buffer]:
    """Yield the records of a range that brokers still have."""
    for chunk in cluster.read(one.queue, one.start, one.end, on_lost=lambda _lost: None):
        yield chunk.records


def judge(
    state: TableState, checks: Mapping[str, FileCheck], dead: Mapping[str, FileCheck]
) -> list[str]:
    """Return the problems of a table as lines."""
    problems = []
    for each in sorted([*checks.values(), *dead.values()], key=lambda each: each.path):
        if each.damage:
            problems.append(f"{each.path}: {each.damage}")
        problems += [
            f"{each.path}: the body at {at} does not fit bodyCRC" for at in each.wrong_bodies
        ]
        problems += [f"{each.path}: differs from the topic at {at}" for at in each.different]
    ends = from_topics(state.mark.offsets) if state.mark else {}
    good = [span for each in checks.values() for span in each.spans]
    begins = from_topics(state.mark.begin) if state.mark else {}
    found = coverage(good, [span for each in dead.values() for span in each.spans], ends, begins)
    problems += [f"missing: {text}" for text in found.missing]
    problems += [f"more than once: {text}" for text in found.repeated]
    return problems + [f"behind the archived end: {text}" for text in found.beyond]


def coverage(
    rows: Iterable[Span],
    dead: Iterable[Span],
    ends: Mapping[MessageQueue, int],
    begins: Mapping[MessageQueue, int],
) -> Coverage:
    """Compare the queue offsets of rows and dead letters with those of the last transaction.

    A queue of a table without `begins` (an older version wrote it) starts at its first row.
    """
    by_queue: dict[MessageQueue, list[tuple[int, int]]] = {queue: [] for queue in begins}
    for span in [*rows, *dead]:
        by_queue.setdefault(span.queue, []).append((span.start, span.end))
    found = Coverage()
    for queue, parts in sorted(by_queue.items()):
        parts.sort()
        first = begins[queue] if queue in begins else parts[0][0]
        at = first
        for start, end in parts:
            if start > at:
                found.missing.append(f"{queue}: queue offsets {at} to {start - 1}")
            elif start < at:
                found.repeated.append(f"{queue}: queue offsets {start} to {min(at, end) - 1}")
            at = max(at, end)
        limit = ends.get(queue, 0)
        if at < limit:
            found.missing.append(f"{queue}: queue offsets {at} to {limit - 1}")
        elif at > limit:
            found.beyond.append(f"{queue}: queue offsets {max(limit, first)} to {at - 1}")
    return found


def audit_of(name_server: str, tls: Any = None) -> Audits:
    """Return a function that audits the replicas of a broker group."""
    from epochmq.spark.jobs.audit import run_audit
    from epochmq.spark.jobs.audit_sources import live_replicas

    def problems(broker_name: str) -> list[str]:
        with live_replicas(name_server, broker_name, tls) as replicas:
            return [finding.text for finding in run_audit(replicas).problems[:SHOWN]]

    return problems
