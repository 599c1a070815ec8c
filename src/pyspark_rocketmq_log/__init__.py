"""Where Spark finds `format("rocketmq-log")` by itself: it looks into every `pyspark_*` module."""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """Imports what it needs when it is used: Spark imports this for every lookup of any source."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-log"

    def schema(self) -> "StructType | str":
        from epochmq.spark.log_source import LogSource

        return LogSource(self.options).schema()

    def reader(self, schema: "StructType") -> "DataSourceReader":
        from epochmq.spark.log_source import LogSource

        return LogSource(self.options).reader(schema)
