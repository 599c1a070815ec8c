"""Job `repair`: restores damaged files of an archive's table from a valid copy or from the topics.

Files are restored from a copy of the table if the copy's bytes have the digest that the archive
stored. Rows of files that no copy has are read from the topics again, and the new files replace the
damaged ones in one transaction. Damaged bytes are kept beside the restored file.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from epochmq.base.errors import EnvironmentFault, StoreDamaged, UsageError
from epochmq.base.needs import need
from epochmq.model.queue_offsets import from_topics
from epochmq.model.topic import MessageQueue
from epochmq.spark.columns import ARROW
from epochmq.spark.jobs.archive_plan import Range
from epochmq.spark.jobs.archive_run import TaskSource, fetch
from epochmq.spark.jobs.archive_task import Fetch, Work, archive_ranges
from epochmq.spark.jobs.job_report import (
    DRY_RUN,
    CheckpointLock,
    JobReport,
    Progress,
    no_progress,
)
from epochmq.spark.jobs.table_check import FileCheck, check_file
from epochmq.spark.jobs.verify_table import (
    TableState,
    VerifyOptions,
    dead_table,
    read_state,
    run_checks,
)
from epochmq.tables.archive_rows import Span
from epochmq.tables.archive_table import STORE_DATE, DataFile
from epochmq.tables.digests import TableDigests, is_whole
from epochmq.tables.iceberg import DEFAULT_NAME
from epochmq.tables.opening import AnyTable, changed_metadata, digests_at
from epochmq.tables.parquet import Manifest, ParquetArchive
from epochmq.tables.storage import Storage, is_local, local_path

DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """The table, and where its rows can be restored from."""

    table: str
    copy: str = ""
    """A copy of the table's directory."""
    source: TaskSource | None = None
    """How to reach the brokers that still have the messages."""
    partial: bool = False
    """Whether to restore the rows that the topics still have where they no longer have all."""
    name: str = DEFAULT_NAME
    catalog: str | None = None


def repair(
    options: RepairOptions, *, dry_run: bool = False, progress: Progress = no_progress
) -> JobReport:
    """Restore what can be restored and return a report.

    Its status is `damaged` when something remains damaged. Raises `StoreDamaged` for metadata that
    the copy cannot restore.
    """
    if not options.copy and options.source is None:
        raise UsageError("name a copy of the table by --from, or name servers by --namesrv")
    report = JobReport("repair")
    with nullcontext() if dry_run else _lock(options.table):
        report.details["metadata"] = restore_metadata(options, dry_run=dry_run)
        look = VerifyOptions(options.table, name=options.name, catalog=options.catalog)
        state = read_state(look, options.name)
        checks = run_checks(state.table, state.files, None, None, progress)
        damaged = [file for file in state.files if is_damaged(checks[file.path])]
        report.rows = sum(each.rows for each in damaged)
        report.bytes = sum(each.bytes for each in damaged)
        report.details["damagedFiles"] = [each.path for each in damaged]
        if dry_run:
            return report.finish(DRY_RUN)
        copied = restore_files(state.table, damaged, options)
        left = [each for each in damaged if each.path not in copied]
        report.details["fromCopy"] = copied
        if left and options.source is not None:
            good = [span for path, each in checks.items() if path not in _paths(left)
                    for span in each.spans]  # fmt: skip
            # A file that was restored from the copy was not read before.
            good += _spans_of(state.table, [each for each in damaged if each.path in copied])
            dead = dead_table(look, state.table)
            dead_spans = _spans_of(dead, dead.data_files()) if dead else []
            left = restore_rows(state, left, [*good, *dead_spans], options, report)
        report.details["notRestored"] = [each.path for each in left]
        record_missing_digests(state, checks)
    return report.finish(DAMAGED if left else None)


def is_damaged(check: FileCheck) -> bool:
    """Return whether a file does not have the rows that the archive wrote."""
    return bool(check.damage or check.wrong_bodies)


def _lock(table: str) -> AbstractContextManager[Any]:
    """Return the lock of the archive, which an archive that runs holds."""
    if not is_local(table):
        return nullcontext()
    return CheckpointLock(local_path(table) / "_checkpoint", "repair")


def _paths(files: Iterable[DataFile]) -> set[str]:
    return {each.path for each in files}


def _spans_of(table: AnyTable, files: Sequence[DataFile]) -> list[Span]:
    return [span for each in run_checks(table, files, None).values() for span in each.spans]


# Metadata ------------------------------------------------------------------------------------


def restore_metadata(options: RepairOptions, *, dry_run: bool = False) -> list[str]:
    """Restore metadata and digest files from the copy, and return their paths.

    Raises `StoreDamaged` when the copy does not have a damaged metadata file. A damaged digest file
    that the copy does not have is set aside: new digests are stored after the files were checked.
    """
    changed = changed_metadata(options.table, options.catalog)
    if not changed or dry_run:
        return changed
    storage = Storage(options.table)
    if not options.catalog and ParquetArchive.is_at(storage):
        _restore_manifest(storage, changed, options)
    else:
        for each in digests_at(options.table, options.catalog):
            _restore_digested(each, options)
    if left := changed_metadata(options.table, options.catalog):
        raise StoreDamaged(
            f"the table {options.table} cannot be restored: {', '.join(left[:5])} are damaged, and"
            f" {options.copy or 'no copy'} has the bytes that were written. Name another copy by"
            " --from, or archive the topics into another table while brokers have the messages"
        )
    return changed


def _restore_manifest(storage: Storage, changed: Sequence[str], options: RepairOptions) -> None:
    if not options.copy:
        return
    copy = Storage(options.copy)
    damaged_there = set(Manifest(copy).check()) if ParquetArchive.is_at(copy) else set(changed)
    for path in changed:
        if path not in damaged_there and copy.exists(path):
            storage.replace(path, copy.blocks(path))


def _restore_digested(digests: TableDigests, options: RepairOptions) -> None:
    storage, copy = digests.storage, copy_of(digests.storage, options)
    for path in digests.read()[1]:
        if copy is not None and copy.exists(path) and is_whole(path, b"".join(copy.blocks(path))):
            storage.replace(path, copy.blocks(path))
        else:
            storage.set_aside(path)
    known = digests.load()
    for path in digests.changed_metadata():
        if copy is not None and copy.exists(path) and copy.sha256(path) == known[path]:
            storage.replace(path, copy.blocks(path))


def copy_of(storage: Storage, options: RepairOptions) -> Storage | None:
    """Return the directory of the copy that corresponds to `storage`; None without a copy."""
    if not options.copy:
        return None
    inner = storage.root.removeprefix(Storage(options.table).root)
    return Storage(f"{Storage(options.copy).root}{inner}")


# Data files ----------------------------------------------------------------------------------


def restore_files(
    table: AnyTable, damaged: Sequence[DataFile], options: RepairOptions
) -> list[str]:
    """Restore data files from the copy and return the paths of those that it has whole."""
    copy = copy_of(table.storage, options)
    restored = []
    for file in damaged if copy is not None else ():
        if copy is not None and has_whole(copy, file):
            table.storage.replace(file.path, copy.blocks(file.path))
            restored.append(file.path)
    return restored


def has_whole(copy: Storage, file: DataFile) -> bool:
    """Return whether the copy has the file as it was written."""
    return not is_damaged(check_file(copy, file, (), None))


def restore_rows(
    state: TableState,
    damaged: Sequence[DataFile],
    good: Sequence[Span],
    options: RepairOptions,
    report: JobReport,
) -> list[DataFile]:
    """Read the rows of damaged files from the topics again; returns the files that remain."""
    from epochmq.spark.spark_cluster import Cluster

    source, mark = options.source, state.mark
    assert source is not None, "the caller has brokers"
    assert mark is not None, "a table with files has a mark"
    work = work_of(state.table, mark.batch)
    ends, begins = from_topics(mark.offsets), from_topics(mark.begin)
    left: list[DataFile] = []
    restored: list[DataFile] = []
    lost: list[str] = []
    timeout_ms = source.failover_timeout_ms
    with Cluster(source.name_server, failover_timeout_ms=timeout_ms, tls=source.tls) as cluster:
        for topic in sorted({each.topic for each in damaged}):
            files = [each for each in damaged if each.topic == topic]
            bounds = cluster.bounds(topic, master=True)
            ranges, gone = lost_ranges(files, good, ends, begins, bounds)
            lost += [str(each) for each in gone]
            done = restore_topic(
                state.table, work, files, ranges, partial(fetch, source, cluster), options.partial
            )
            (restored if done else left).extend(files)
    report.details |= {"fromTopic": sorted(_paths(restored)), "lost": lost}
    return left


def work_of(table: AnyTable, batch: int) -> Work:
    """Return the parameters with which the archive wrote the table.

    Raises `UsageError` for a table with typed columns, whose schema is not known here.
    """
    pa = need("pyarrow", "spark")
    schema = table.schema()
    typed = [name for name in schema.names if name not in ARROW and name != STORE_DATE]
    if typed:
        raise UsageError(
            f"the table has typed columns ({typed[0]}), which cannot be read from the topics again:"
            " restore it from a copy by --from"
        )
    columns = tuple(name for name in schema.names if name in ARROW)
    is_raw = "properties" in columns and not pa.types.is_map(schema.field("properties").type)
    return Work(batch, table.root, None, columns, "raw" if is_raw else "map")


def lost_ranges(
    damaged: Sequence[DataFile],
    good: Iterable[Span],
    ends: Mapping[MessageQueue, int],
    begins: Mapping[MessageQueue, int],
    bounds: Mapping[MessageQueue, tuple[int, int]],
) -> tuple[list[Range], list[Range]]:
    """Return the ranges of damaged files of one topic: those that brokers have, and the others.

    They are the queue offsets from the archive's begins to its ends that no sound file has, within
    the bounds of queue offsets that the table knows of the damaged files.
    """
    topic = damaged[0].topic
    known = [each.stats.get("queueOffset") for each in damaged]
    low = min(int(each[0]) for each in known if each) if all(known) else 0
    high = max(int(each[1]) for each in known if each) + 1 if all(known) else None
    by_queue: dict[MessageQueue, list[Span]] = {}
    for span in good:
        by_queue.setdefault(span.queue, []).append(span)
    there, gone = [], []
    for queue, end in sorted(ends.items()):
        if queue.topic != topic:
            continue
        limit = end if high is None else min(end, high)
        first = bounds.get(queue, (limit, limit))[0]
        least = max(low, begins.get(queue, 0))
        for start, stop in uncovered(by_queue.get(queue, ()), least, limit):
            if start < min(first, stop):
                gone.append(Range(queue, start, min(first, stop)))
            if max(start, first) < stop:
                there.append(Range(queue, max(start, first), stop))
    return there, gone


def uncovered(spans: Iterable[Span], low: int, high: int) -> list[tuple[int, int]]:
    """Return the parts of `[low, high)` that no span contains, in order."""
    found, at = [], low
    for span in sorted(spans):
        if span.start > at and at < high:
            found.append((at, min(span.start, high)))
        at = max(at, span.end)
    if at < high:
        found.append((at, high))
    return found


def restore_topic(
    table: AnyTable,
    work: Work,
    damaged: Sequence[DataFile],
    ranges: Sequence[Range],
    read: Fetch,
    partial: bool,
) -> bool:
    """Write the rows of `ranges` and commit them in place of the damaged files of one topic.

    Returns False, and commits nothing, when the rows are not as many as the damaged files had.
    """
    wanted = sum(each.rows for each in damaged)
    written = archive_ranges(work, 0, ranges, read)
    if written.rows > wanted or (written.rows < wanted and not partial):
        for each in written.files:
            table.storage.remove(each.path)
        if written.rows > wanted:
            raise EnvironmentFault(
                f"the topic {damaged[0].topic} has {written.rows} messages where the damaged files"
                f" had {wanted} rows, so the archive did not begin at its first message: restore"
                " the table from a copy by --from"
            )
        return False
    table.replace(damaged, written.files)
    return True


def record_missing_digests(state: TableState, checks: Mapping[str, FileCheck]) -> None:
    """Store digests of sound files that have none, as in tables of older versions."""
    without = [
        replace(file, sha256=state.table.storage.sha256(file.path))
        for file in state.files
        if not file.sha256 and not is_damaged(checks[file.path])
    ]
    if without:
        state.table.record_digests(without)
