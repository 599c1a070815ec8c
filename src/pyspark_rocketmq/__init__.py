"""Where Spark finds `format("rocketmq")` by itself: it looks into every `pyspark_*` module.

It imports all of them for each look-up of any source, so nothing heavy is loaded here, neither
numpy nor pyarrow.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """Hands every call to `epochmq.spark`, which is imported then."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> "StructType | str":
        from epochmq import spark

        return spark.schema(self.options)

    def reader(self, schema: "StructType") -> "DataSourceReader":
        from epochmq.spark import batch_reader

        return batch_reader(self.options, schema)

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":
        from epochmq.spark import stream_reader

        return stream_reader(self.options, schema)

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        from epochmq.spark import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":
        from epochmq.spark import stream_writer

        return stream_writer(self.options, schema, overwrite)
