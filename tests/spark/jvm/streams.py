"""A query that copies a topic as a stream, and what ended one."""

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

EVERY = "300 milliseconds"


def copying(
    spark: SparkSession, namesrv: str, source: str, target: str, checkpoint: str
) -> DataStreamWriter:
    """The stream, not started yet."""
    given = {"nameServer": namesrv, "subscribe": source, "startingOffsets": "earliest"}
    rows = spark.readStream.format("rocketmq").options(**given).load().select("body", "keys")
    writer = rows.writeStream.format("rocketmq").options(nameServer=namesrv, topic=target)
    return writer.option("checkpointLocation", checkpoint)


def failure(query: StreamingQuery) -> str:
    """What ended a query; empty when it was stopped."""
    error = query.exception()
    return str(error)[:2000] if error else ""
