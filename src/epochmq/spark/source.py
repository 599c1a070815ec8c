"""Reading `format("rocketmq")` in batch: its schema and its reader.

`pyspark_rocketmq.DefaultSource` is what Spark finds; it calls here. Spark builds readers in its
planner, pickles them to the executors and calls `read` there, so they hold plain values only;
connections belong to the process (`rows.cluster_of`).
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from epochmq.base.errors import UsageError
from epochmq.spark import columns
from epochmq.spark.options import OffsetsOption, SourceOptions, check_batch, parse_source
from epochmq.spark.plan import Bounds, QueueRange, split, tasks_of
from epochmq.spark.positions import begin_within, resolve, selected
from epochmq.spark.pushdown import PushedFilters, pushed
from epochmq.spark.rows import batches, cluster_of, on_lost
from epochmq.spark.spark_offsets import Offsets

_EARLIEST = OffsetsOption("Offsets", "earliest")
_LATEST = OffsetsOption("Offsets", "latest")


class SpansPartition(InputPartition):
    """One task: spans of one or several queues, read one after the other."""

    def __init__(self, spans: tuple[QueueRange, ...]) -> None:
        super().__init__(spans)


def schema(given: Mapping[str, str]) -> str:
    """The columns that these options ask for, as Spark writes them."""
    options = parse_source(given)
    return columns.ddl(options["columns"], options["properties"])


def batch_reader(given: Mapping[str, str], wanted: StructType) -> DataSourceReader:
    """The reader of a batch query; `UsageError` for options that do not fit one."""
    options = parse_source(given)
    check_batch(options)
    kind = PushdownReader if options["pushdown"] else BatchReader
    return kind(options, columns_of(wanted, options))


def columns_of(schema: StructType, options: SourceOptions) -> tuple[str, ...]:
    """The columns that Spark wants, which are ours or the user's `.schema(...)`.

    `UsageError` for a column that does not exist or has another type.
    """
    names = tuple(schema.fieldNames())
    if "properties" in names and options["properties"] == "none":
        raise UsageError("column properties is wanted, but option properties is none")
    ours = columns.schema(names, options["properties"])
    for given, right in zip(to_arrow_schema(schema, timezone="UTC"), ours, strict=True):
        if given.type != right.type:
            raise UsageError(
                f"column {given.name} is {right.type}, the schema says {given.type};"
                " cast it after reading"
            )
        if not given.nullable:
            raise UsageError(f"column {given.name} can be null; leave NOT NULL out of the schema")
    return names


class BatchReader(DataSourceReader):
    """Reads what lies between two positions, resolved once, when the query is planned."""

    def __init__(self, options: SourceOptions, names: tuple[str, ...]) -> None:
        self.options = options
        self.names = names
        self.wanted = PushedFilters()

    def partitions(self) -> list[InputPartition]:
        return [SpansPartition(task) for task in tasks_of(self._spans(), self.options)]

    def _spans(self) -> list[QueueRange]:
        options = self.options
        cluster = cluster_of(options)
        bounds = selected(cluster, options.selection)
        begin = resolve(cluster, bounds, options.start or _EARLIEST)
        end = resolve(cluster, bounds, options.end or _LATEST)
        spans = between(self.wanted.queues(bounds), begin, end, options)
        spans = self.wanted.narrowed(spans, cluster.offsets_at)
        return split(spans, options["minPartitions"], options["maxRecordsPerPartition"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # Spark's own, when there was nothing to read
            return iter(())
        return chain.from_iterable(
            batches(self.options, self.names, span) for span in partition.value
        )


class PushdownReader(BatchReader):
    """Turns filters into ranges. A class of its own: with the session's setting off, Spark fails
    any query whose reader has this method."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self.wanted, rest = pushed(filters)
        return rest


def between(
    bounds: Bounds, begin: Offsets, end: Offsets, options: SourceOptions
) -> list[QueueRange]:
    """Spans from `begin` to `end`, within what there is.

    `DataLost` for a begin that is not there any more, unless failOnDataLoss=false; `UsageError` for
    an end that is not there yet, or lies before the begin.
    """
    begin = begin_within(bounds, begin, options.start, on_lost(options))
    spans = []
    for queue in sorted(bounds):
        start, stop, high = begin[queue], end[queue], bounds[queue][1]
        if stop > high:
            raise UsageError(
                f"{queue} ends at queue offset {high}, the read is to end at {stop};"
                " a batch reads what is there"
            )
        if stop < start and options.end is not None and options.end.table:
            raise UsageError(f"{queue} is to be read from queue offset {start} back to {stop}")
        spans.append(QueueRange(queue, start, max(start, stop)))
    return spans
