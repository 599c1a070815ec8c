"""A driver of its own that copies a topic as a stream, until it is told to stop or fails.

`python one_stream.py NAMESRV FROM TO CHECKPOINT STOP`: it ends when the file STOP appears, and
says in JSON what Spark reported of the query; STOP empty reads what is there and ends.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from tests.spark.jvm.job import session


def start(spark: SparkSession, namesrv: str, source: str, target: str, checkpoint: str) -> object:
    """The query's writer, not started yet."""
    given = {"nameServer": namesrv, "subscribe": source, "startingOffsets": "earliest"}
    rows = spark.readStream.format("rocketmq").options(**given).load().select("body", "keys")
    writer = rows.writeStream.format("rocketmq").options(nameServer=namesrv, topic=target)
    return writer.option("checkpointLocation", checkpoint)


def main(namesrv: str, source: str, target: str, checkpoint: str, stop: str) -> None:
    spark = session("local[1,4]")
    writer = start(spark, namesrv, source, target, checkpoint)
    trigger = {"processingTime": "300 milliseconds"} if stop else {"availableNow": True}
    query = writer.trigger(**trigger).start()  # type: ignore[attr-defined]
    try:
        while query.isActive and not (stop and Path(stop).exists()):
            time.sleep(0.05)
        query.stop()
        error = query.exception()
    except Exception as raised:  # what ends a query is what the test is about
        error = raised
    print(json.dumps({"error": str(error)[:2000] if error else ""}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
