"""A job as a user submits it: reads a topic, writes another one, says what it saw, in JSON.

`python job.py MASTER NAMESRV FROM TO`, MASTER as `spark.master` or `sc://HOST:PORT`.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id

from epochmq.spark import tune


def session(master: str) -> Any:
    """On a cluster executors are processes of their own, with little memory each."""
    builder = tune(SparkSession.builder.appName("job"), master=master)
    more = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "600m",
        "spark.cores.max": "2",
        "spark.log.level": "ERROR",
    }
    for key, value in more.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main(master: str, namesrv: str, source: str, target: str) -> None:
    if master.startswith("sc://"):
        spark = SparkSession.builder.remote(master).getOrCreate()
    else:
        spark = session(master)
    given = {"nameServer": namesrv, "subscribe": source, "minPartitions": "4"}
    rows = spark.read.format("rocketmq").options(**given).load()
    written = rows.selectExpr("body", "tags", "keys")
    to = {"nameServer": namesrv, "topic": target}
    written.write.format("rocketmq").options(**to).mode("append").save()
    found = rows.select("body", spark_partition_id().alias("task")).collect()
    bodies = sorted(int(row.body) for row in found)
    tasks = len({row.task for row in found})
    print(json.dumps({"bodies": bodies, "partitions": tasks}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
