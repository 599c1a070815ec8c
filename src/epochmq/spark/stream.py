"""The streaming reader of `format("rocketmq")` that Spark calls; `stream_plan` makes its decisions.

A reader exists in the process that plans micro-batches, and as a pickled copy in each executor,
where Spark only calls `read`.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from epochmq.spark.options import SourceOptions, check_stream, parse_source
from epochmq.spark.rows import batches, check_archive, cluster_of, on_lost
from epochmq.spark.source import columns_of
from epochmq.spark.stream_plan import Limits, StreamPlanner


def stream_reader(given: Mapping[str, str], wanted: StructType) -> DataSourceStreamReader:
    """Create the reader of a streaming query.

    `given` are the options, `wanted` is the schema of the query. Raises `UsageError` for options
    that do not fit a streaming query.
    """
    options = parse_source(given)
    check_stream(options)
    return StreamReader(options, columns_of(wanted, options))


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the selected queues as a stream; limits the size of a micro-batch (admission
    control).
    """

    def __init__(self, options: SourceOptions, names: tuple[str, ...]) -> None:
        self.options = options
        self.names = names
        self._planner: StreamPlanner | None = None

    @property
    def planner(self) -> StreamPlanner:
        """The planner, created on first use: the pickled copies in executors have none."""
        if self._planner is None:
            options = self.options
            check_archive(options, self.names)
            self._planner = StreamPlanner(options, cluster_of(options), on_lost(options))
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        return self.planner.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return one limit, as Spark requires; `latestOffset` applies the limit of bytes in
        addition.
        """
        if self.options["maxOffsetsPerTrigger"] is not None:
            return ReadMaxRows(self.options["maxOffsetsPerTrigger"])
        if self.options["maxBytesPerTrigger"] is not None:
            return ReadMaxBytes(self.options["maxBytesPerTrigger"])
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self.planner.latest(start, limits_of(limit, self.options))

    def prepareForTriggerAvailableNow(self) -> None:
        self.planner.prepare()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self.planner.report()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [InputPartition(task) for task in self.planner.tasks(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:
            return iter(())
        return chain.from_iterable(
            batches(self.options, self.names, span) for span in partition.value
        )

    def commit(self, end: dict[str, Any]) -> None:
        self.planner.publish(end)

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.stop()


def limits_of(limit: ReadLimit, options: SourceOptions) -> Limits:
    """Return the limits of a micro-batch for Spark's `limit`; no limits for trigger(once=True)."""
    if isinstance(limit, ReadAllAvailable):
        return Limits()
    rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
    return Limits(rows, options["maxBytesPerTrigger"])
