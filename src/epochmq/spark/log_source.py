"""`format("rocketmq-log")`: a broker's log as a batch source, from its files or as a learner.

For forensics and salvage: rows come in the log's order, all topics together, with the place where
they were found. Directories are only read, without their lock (ADR 0041).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from epochmq.spark.freeze import freeze_once
from epochmq.spark.log_options import LEARNER, LogOptions, parse_log_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

NAME = "rocketmq-log"


class LogSource(DataSource):
    """Options: see `log_options`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        from epochmq.spark.log_rows import ddl

        return ddl(parse_log_options(self.options))

    def reader(self, schema: "StructType") -> DataSourceReader:
        return LogReader(parse_log_options(self.options), schema.fieldNames())


class LogReader(DataSourceReader):
    """Plans on the driver; is pickled to the executors, which read."""

    def __init__(self, options: LogOptions, names: list[str]) -> None:
        from epochmq.spark.log_rows import only

        self._options = only(names, options)

    def partitions(self) -> list[InputPartition]:
        if self._options.read_from == LEARNER:
            from epochmq.spark.log_learn import plan_brokers

            return [InputPartition(each) for each in plan_brokers(self._options)]
        from epochmq.spark.log_plan import find_replicas, plan

        return [InputPartition(each) for each in plan(find_replicas(self._options), self._options)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        split = partition.value
        if split is None:  # Spark's stand-in for no partition at all
            return
        freeze_once()
        if self._options.read_from == LEARNER:
            from epochmq.spark.log_learn import learn

            yield from learn(split, self._options)
        else:
            from epochmq.spark.log_rows import RowMaker

            yield from RowMaker(self._options).split(split)
