"""The service of `epochmq lake`: keeps topics as tables, without Spark.

A topic with the attribute `epochmq.table` gets a table below the warehouse. The service archives
each such topic in short batches with the code of the job archive: exactly once, and continued by
the table itself after a crash. It compacts the tables, and commits what is archived as the offsets
of a consumer group, so the tools that show the lag of consumers show that of tables.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from epochmq.base.errors import EpochError, NotFound, UsageError
from epochmq.model.topic import TABLE_ATTRIBUTE
from epochmq.runtime.tls import OutgoingTls
from epochmq.spark.jobs.archive import Archive, ArchiveOptions, check, locked, wait
from epochmq.spark.jobs.archive_run import InProcess, Runner, TaskSource
from epochmq.spark.jobs.framework import JobStop
from epochmq.spark.jobs.job_report import no_progress
from epochmq.spark.jobs.job_status import JobReports, job_reports
from epochmq.tables.archive_table import ESCAPED
from epochmq.tables.iceberg import DEFAULT_NAME
from epochmq.tables.opening import open_table

if TYPE_CHECKING:
    from epochmq.spark.jobs.log_feed import LogFeed

log = logging.getLogger(__name__)

GROUP = "EPOCHMQ_LAKE"
"""The consumer group whose offsets show how far the tables are."""
NAMESPACE = "lake"
"""The namespace of the tables in a catalog that all topics share."""
RETRY_S = (5.0, 15.0, 60.0, 300.0)
"""Pauses after errors of one topic, in a row."""
VACUUM_EVERY_S = 3_600.0


@dataclass(frozen=True, slots=True)
class LakeOptions:
    """Which brokers, where the tables are, and how often they are written."""

    name_server: str
    warehouse: str
    """A directory or URL; the table of a topic is below it, under the topic's name."""
    interval_s: float = 10.0
    """The time between two batches of a topic."""
    compact_every: int = 30
    """The number of batches of a topic between two compactions."""
    vacuum_hours: float = 24.0
    """Files that a compaction replaced are deleted after this time."""
    threads: int = 4
    """How many topics are written at a time."""
    catalog: str | None = None
    """Of Iceberg tables: they are `lake.TOPIC` there. By default SQLite beside each table."""
    keep_days: int = 0
    """Rows that were stored more than so many days ago are removed; 0 keeps all."""
    read_from: str = "auto"
    """Which replicas serve the messages: auto, master or follower."""
    failover_timeout_ms: int = 60_000
    tls: OutgoingTls | None = None
    learner: bool = False
    """Whether the logs of broker groups are followed, instead of asking for each queue."""

    def of_topic(self, topic: str, format: str) -> ArchiveOptions:
        """Return the options of the archive of one topic."""
        name = topic
        for char, escape in ESCAPED.items():
            name = name.replace(char, escape)
        return ArchiveOptions(
            self.name_server,
            (topic,),
            f"{self.warehouse.rstrip('/')}/{name}",
            format,
            app=f"lake:{topic}",
            compact_every=self.compact_every,
            keep_days=self.keep_days,
            failover_timeout_ms=self.failover_timeout_ms,
            catalog=self.catalog if format == "iceberg" else None,
            name=table_name(topic) if self.catalog else DEFAULT_NAME,
            tls=self.tls,
        )


@dataclass
class KeptTopic:
    """One topic that is kept as a table, and what happened to it."""

    topic: str
    format: str
    archive: Archive | None = None
    """None before it was opened, and after an error."""
    locks: ExitStack = field(default_factory=ExitStack)
    rows: int = 0
    """Rows that were written since the start of the service."""
    failures: int = 0
    """Errors since the last batch that succeeded."""
    retry_at_s: float = 0.0
    """Monotonic; not before this time after an error."""
    vacuum_at_s: float = 0.0

    def close(self) -> None:
        """Release the lock of the table; the table is opened again when it is needed."""
        self.archive = None
        self.locks.close()


def wanted_tables(attributes: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return topic -> format for the topics that are to be kept as tables."""
    return {
        topic: values[TABLE_ATTRIBUTE]
        for topic, values in sorted(attributes.items())
        if values.get(TABLE_ATTRIBUTE)
    }


def table_name(topic: str) -> str:
    """Return the name of a topic's table in a catalog that all topics share."""
    for char in ESCAPED:
        topic = topic.replace(char, "_")
    return f"{NAMESPACE}.{topic}"


def pause_s(failures: int) -> float:
    """Return the pause after `failures` errors in a row."""
    return RETRY_S[min(failures, len(RETRY_S)) - 1]


class LakeService:
    """Keeps the tables of one cluster.

    Args:
        options: which brokers, where the tables are, and how often they are written.
        cluster: a client of the cluster.
        runner: writes the files.
        clock_s: the monotonic clock.
        reports: where the state of each table is noted; None for nowhere.
        feed: follows the logs from which `runner` reads; None without one.
    """

    def __init__(
        self,
        options: LakeOptions,
        cluster: Any,
        runner: Runner,
        clock_s: Callable[[], float] = time.monotonic,
        reports: JobReports | None = None,
        feed: "LogFeed | None" = None,
    ) -> None:
        self._options = options
        self._feed = feed
        self._cluster = cluster
        self._runner = runner
        self._clock_s = clock_s
        self._reports = reports
        self.tables: dict[str, KeptTopic] = {}

    def run(self, stop: JobStop) -> None:
        """Write all tables every `interval_s` seconds until `stop`."""
        while not stop.asked:
            began_s = self._clock_s()
            self.write_all(stop)
            wait(began_s + self._options.interval_s, stop)

    def write_all(self, stop: JobStop) -> int:
        """Look for topics, write a batch of each, and return the number of archived rows."""
        try:
            self._follow(wanted_tables(self._cluster.attributes()))
        except EpochError as error:
            log.warning(
                "topics cannot be listed; known ones are continued: %(error)s", {"error": error}
            )
        if self._feed is not None:
            self._feed.advance(self.tables.keys())
        now_s = self._clock_s()
        due = [each for each in self.tables.values() if each.retry_at_s <= now_s]
        with ThreadPoolExecutor(self._options.threads, "epochmq-lake") as pool:
            return sum(pool.map(lambda each: self._write(each, stop), due))

    def close(self) -> None:
        """Release all locks."""
        for each in self.tables.values():
            each.close()
            if self._reports is not None:
                self._reports.end(_job(each.topic))

    def _follow(self, wanted: Mapping[str, str]) -> None:
        for topic in sorted(self.tables.keys() - wanted.keys()):
            log.info(
                "topic %(topic)s is no longer kept as a table; the table stays", {"topic": topic}
            )
            self.tables.pop(topic).close()
            if self._reports is not None:
                self._reports.end(_job(topic))
        for topic, format in wanted.items():
            known = self.tables.get(topic)
            if known is None or known.format != format:
                if known is not None:
                    known.close()
                self.tables[topic] = KeptTopic(topic, format)

    def _write(self, table: KeptTopic, stop: JobStop) -> int:
        try:
            rows = self._write_batches(table, stop)
        except Exception as error:  # one topic does not stop the others
            table.failures += 1
            pause = pause_s(table.failures)
            table.retry_at_s = self._clock_s() + pause
            table.close()
            said = error if isinstance(error, EpochError) else f"{type(error).__name__}: {error}"
            log.warning(
                "topic %(topic)s: %(error)s; next try in %(pause_s).0f s",
                {"topic": table.topic, "error": said, "pause_s": pause},
            )
            self._note(table, error=str(said))
            return 0
        table.failures = 0
        table.rows += rows
        self._note(table)
        return rows

    def _note(self, table: KeptTopic, error: str = "") -> None:
        if self._reports is not None:
            job, text = _job(table.topic), f"{table.format} table"
            self._reports.note(job, text=text, rows=table.rows, error=error)

    def _write_batches(self, table: KeptTopic, stop: JobStop) -> int:
        archive = table.archive
        if archive is None:
            archive = self._opened(table)
        before = archive.report.rows
        archive.run(self._runner, stop)
        rows = archive.report.rows - before
        if rows:
            self._publish(table.topic, archive)
        self._vacuum(table, archive)
        return rows

    def _opened(self, table: KeptTopic) -> Archive:
        options = self._options.of_topic(table.topic, table.format)
        check(options)
        if options.catalog and _owns(options, DEFAULT_NAME):
            options = replace(options, name=DEFAULT_NAME)
        archive = Archive(options, self._cluster, no_progress, lambda _step: None)
        table.locks.enter_context(locked(options))
        archive.open()
        table.archive = archive
        table.vacuum_at_s = self._clock_s() + VACUUM_EVERY_S
        log.info(
            "topic %(topic)s is kept as a %(format)s table at %(table)s",
            {"topic": table.topic, "format": table.format, "table": options.table},
        )
        self._publish(table.topic, archive)
        return archive

    def _publish(self, topic: str, archive: Archive) -> None:
        """Commit the archived offsets as those of `GROUP`; the table alone decides where it is."""
        try:
            self._cluster.commit_all(GROUP, archive.positions)
        except EpochError as error:
            log.warning(
                "topic %(topic)s: offsets of %(group)s are not published: %(error)s",
                {"topic": topic, "group": GROUP, "error": error},
            )

    def _vacuum(self, table: KeptTopic, archive: Archive) -> None:
        if self._options.compact_every and self._clock_s() >= table.vacuum_at_s:
            table.vacuum_at_s = self._clock_s() + VACUUM_EVERY_S
            gone = archive.table.vacuum(self._options.vacuum_hours)
            log.info(
                "topic %(topic)s: %(files)d files that a compaction replaced are deleted",
                {"topic": table.topic, "files": gone},
            )


def _owns(options: ArchiveOptions, name: str) -> bool:
    """Return whether a topic has the table `name`, as one topic of a shared catalog had before
    each had a name of its own.
    """
    try:
        table = open_table(options.table, "iceberg", name=name, catalog=options.catalog)
    except (NotFound, UsageError):
        return False
    return table.mark is not None and table.mark.app == options.owner


def _job(topic: str) -> str:
    """Return the name under which the table of a topic reports."""
    return f"lake:{topic}"


@contextmanager
def lake_service(options: LakeOptions) -> Iterator[LakeService]:
    """Yield a service with its own connections."""
    from epochmq.spark.jobs.log_feed import open_feed
    from epochmq.spark.spark_cluster import Cluster

    timeout_ms = options.failover_timeout_ms
    feed = open_feed(options.name_server, options.tls) if options.learner else None
    source = TaskSource(
        options.name_server, timeout_ms, tls=options.tls, read_from=options.read_from
    )
    with (
        Cluster(options.name_server, failover_timeout_ms=timeout_ms, tls=options.tls) as cluster,
        job_reports(options.name_server, options.tls) as reports,
    ):
        runner = InProcess(source, None if feed is None else feed.read)
        service = LakeService(options, cluster, runner, reports=reports, feed=feed)
        try:
            yield service
        finally:
            service.close()
