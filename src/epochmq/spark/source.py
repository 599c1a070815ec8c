"""The batch source of `format("rocketmq")`: its schema and its reader.

Spark finds `pyspark_rocketmq.DefaultSource`, which calls this module. Spark creates a reader in the
planner's process, pickles it, and calls its `read` in executors. A reader therefore holds plain
values only; each process has its own connections (`rows.cluster_of`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from epochmq.base.errors import UsageError
from epochmq.model.queue_offsets import Offsets
from epochmq.spark import columns
from epochmq.spark.options import OffsetsOption, SourceOptions, check_batch, parse_source
from epochmq.spark.plan import Bounds, QueueRange, split, tasks_of
from epochmq.spark.positions import begin_within, resolve, selected
from epochmq.spark.pushdown import PushedFilters, pushed
from epochmq.spark.rows import batches, check_archive, cluster_of, on_lost

_EARLIEST = OffsetsOption("Offsets", "earliest")
_LATEST = OffsetsOption("Offsets", "latest")


class SpansPartition(InputPartition):
    """The input partition of one task: ranges of one or several queues, read one after the
    other.
    """

    def __init__(self, spans: tuple[QueueRange, ...]) -> None:
        super().__init__(spans)


def schema(given: Mapping[str, str]) -> str:
    """Return the schema that the options select, as a Spark DDL string.

    Raises `UsageError` for options that are invalid.
    """
    options = parse_source(given)
    return columns.ddl(options["columns"], options["properties"], options.typed.fields())


def batch_reader(given: Mapping[str, str], wanted: StructType) -> DataSourceReader:
    """Create the reader of a batch query.

    `given` are the options, `wanted` is the schema of the query. Raises `UsageError` for options
    that do not fit a batch query.
    """
    options = parse_source(given)
    check_batch(options)
    reader = BatchReader(options, columns_of(wanted, options))
    if options["pushdown"]:
        reader.pushFilters = FilterPush(reader)  # type: ignore[method-assign]
    return reader


def columns_of(schema: StructType, options: SourceOptions) -> tuple[str, ...]:
    """Return the names of the columns in `schema`: the source's own schema, or the user's
    `.schema(...)`.

    Raises `UsageError` for a column that does not exist or has another type.
    """
    names = tuple(schema.fieldNames())
    if "properties" in names and options["properties"] == "none":
        raise UsageError("column properties is wanted, but option properties is none")
    ours = columns.schema(names, options["properties"], options.typed.fields())
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
    """Reads all queues between two positions, which are resolved once, when Spark plans the
    query.
    """

    def __init__(self, options: SourceOptions, names: tuple[str, ...]) -> None:
        self.options = options
        self.names = names
        self.wanted = PushedFilters()

    def partitions(self) -> list[InputPartition]:
        return [SpansPartition(task) for task in tasks_of(self._spans(), self.options)]

    def _spans(self) -> list[QueueRange]:
        options = self.options
        check_archive(options, self.names)
        cluster = cluster_of(options)
        bounds = selected(cluster, options.selection)
        begin = resolve(cluster, bounds, options.start or _EARLIEST)
        end = resolve(cluster, bounds, options.end or _LATEST)
        spans = between(self.wanted.queues(bounds), begin, end, options)
        spans = self.wanted.narrowed(spans, cluster.offsets_at, cluster.key_places)
        return split(spans, options["minPartitions"], options["maxRecordsPerPartition"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        options = self.options
        expression = self.wanted.tag_expression(options["tags"])
        # A value of None is Spark's own partition, without anything to read.
        if partition.value is None or expression == "":
            return iter(())
        if expression != options["tags"]:
            options = replace(options, values={**options.values, "tags": expression})
        return chain.from_iterable(batches(options, self.names, span) for span in partition.value)


class FilterPush:
    """The method `pushFilters` of a batch reader, for sessions with filter pushdown and without.

    Spark fails each query whose reader overrides `pushFilters` while the setting
    `spark.sql.python.filterPushdown.enabled` is off, which is the default. It looks at `__func__`
    for this, so this object looks like the inherited method. Without the setting Spark does not
    call it, and applies all filters itself.
    """

    def __init__(self, reader: BatchReader) -> None:
        self.__func__ = DataSourceReader.pushFilters
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Note the filters that the reader applies; return those that Spark has to apply."""
        self._reader.wanted, rest = pushed(filters)
        return rest


def between(
    bounds: Bounds, begin: Offsets, end: Offsets, options: SourceOptions
) -> list[QueueRange]:
    """Return the range from `begin` to `end` of each queue, checked against the queue's `bounds`.

    Raises `DataLost` when messages at `begin` were deleted, unless failOnDataLoss=false. Raises
    `UsageError` for an end that is larger than the queue's end, or smaller than the begin.
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
