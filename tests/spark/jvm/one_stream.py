"""A driver of its own that copies a topic as a stream, until it is told to stop or fails.

`python -m tests.spark.jvm.one_stream NAMESRV FROM TO CHECKPOINT STOP`: it ends when the file STOP
appears, and says in JSON what Spark reported of the query.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.spark.jvm.job import session

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


def main(namesrv: str, source: str, target: str, checkpoint: str, stop: str) -> None:
    spark = session("local[1,4]")
    writer = copying(spark, namesrv, source, target, checkpoint)
    query = writer.trigger(processingTime=EVERY).start()
    while query.isActive and not Path(stop).exists():
        time.sleep(0.05)
    query.stop()
    print(json.dumps({"error": failure(query)}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
