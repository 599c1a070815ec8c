"""The batch source `format("rocketmq-log")`: a broker's log from its files, or read as a learner.

It serves forensics and salvage: rows are in the log's order, with all topics, and with the place
where they were found. Directories are only read, without their lock (ADR 0041).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from epochmq.base.errors import NotFound
from epochmq.spark.freeze import freeze_once
from epochmq.spark.log_export import LogExport, LogRange, open_export
from epochmq.spark.log_learner import find_brokers
from epochmq.spark.log_options import LEARNER, LogOptions, names, parse_log_options
from epochmq.spark.log_records import WholeRecords
from epochmq.spark.log_rows import ByteSource, RowMaker
from epochmq.store.draft import file_name

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


# Log learn -----------------------------------------------------------------------------------
# `readFrom=learner`: the whole log of brokers as rows, with one task for each broker.


@dataclass(frozen=True)
class LearnerSplit:
    """The log bytes `[start, end)` of `broker` that one task reads; a retry reads the same."""

    broker: str
    start: int
    end: int


def plan_brokers(options: LogOptions) -> list[LearnerSplit]:
    """Return one split for each broker group; raises `NotFound` for an unknown one."""
    known = find_brokers(options.name_server, options)
    wanted = names(options.brokers) or known
    for name in wanted:
        if name not in known:
            raise NotFound(
                f"there is no broker {name}; known to the name server: {', '.join(known) or 'none'}"
            )
    to = int(options.to_offset) if options.to_offset.isdecimal() else None
    return [
        split_of(open_export(options.name_server, name, options.from_offset, to, tls=options), name)
        for name in dict.fromkeys(wanted)
    ]


def split_of(export: LogExport, broker: str) -> LearnerSplit:
    """Return the range that `export` would read now; this uses the export up."""
    return LearnerSplit(broker, *export.find_bounds())


def learn(split: LearnerSplit, options: LogOptions) -> Iterator["pa.RecordBatch"]:
    """Yield the rows of one broker."""
    export = open_export(options.name_server, split.broker, split.start, split.end, tls=options)
    return rows_of(export, split.broker, options)


def rows_of(export: LogExport, broker: str, options: LogOptions) -> Iterator["pa.RecordBatch"]:
    """Convert the ranges of an export to rows; join records that a range border cuts."""
    maker = RowMaker(options)
    whole = WholeRecords(export, options.check_crc)
    for piece in export.ranges():
        for data, base, found in whole.add_range(piece):
            if options.epochs is None or piece.epoch in options.epochs:
                place = _place(piece, export, broker)
                yield from maker.rows(data, base, found, base, base + len(data), place)


def _place(piece: LogRange, export: LogExport, broker: str) -> ByteSource:
    name = file_name(piece.offset - piece.offset % export.file_bytes)
    return ByteSource(broker, name, False, (), piece.epoch, export.end)


# Log source ----------------------------------------------------------------------------------


NAME = "rocketmq-log"


class LogSource(DataSource):
    """The Spark data source `rocketmq-log`; `log_options` describes its options."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        from epochmq.spark.log_rows import ddl

        return ddl(parse_log_options(self.options))

    def reader(self, schema: "StructType") -> DataSourceReader:
        return LogReader(parse_log_options(self.options), schema.fieldNames())


class LogReader(DataSourceReader):
    """Plans on the driver; its pickled copies read in executors."""

    def __init__(self, options: LogOptions, names: list[str]) -> None:
        from epochmq.spark.log_rows import only

        self._options = only(names, options)

    def partitions(self) -> list[InputPartition]:
        if self._options.read_from == LEARNER:
            return [InputPartition(each) for each in plan_brokers(self._options)]
        from epochmq.spark.log_plan import find_replicas, plan

        return [InputPartition(each) for each in plan(find_replicas(self._options), self._options)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        split = partition.value
        if split is None:  # Spark's stand-in for no partition at all
            return
        freeze_once()
        if self._options.read_from == LEARNER:
            yield from learn(split, self._options)
        else:
            from epochmq.spark.log_rows import RowMaker

            yield from RowMaker(self._options).split(split)
