"""Tables and batches for the tests of formats."""

from tests.spark.jobs.lake import BROKER, FakeCluster, topic

from epochmq.model.topic import MessageQueue
from epochmq.spark.jobs.archive_plan import Range
from epochmq.spark.jobs.archive_task import Work, archive_ranges, schema_of
from epochmq.tables.archive_table import DataFile
from epochmq.tables.opening import AnyTable

APP = "archive:T"
SCHEMA = schema_of(Work(0, "", None))


def offsets(end: int) -> dict[str, dict[str, int]]:
    return {"T": {f"{BROKER}:0": end}}


def files_of(table: AnyTable, batch: int, start: int, end: int, name: str = "T") -> list[DataFile]:
    """Queue offsets `start` to `end` of queue 0, written and not committed."""
    cluster = FakeCluster(topic(name, 1, end))
    one = Range(MessageQueue(name, BROKER, 0), start, end)
    return archive_ranges(Work(batch, table.root, None), 0, [one], cluster.fetch).files
