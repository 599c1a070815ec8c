"""A job as a user submits it: reads a topic, writes another one, says what it saw, in JSON.

`python job.py NAMESRV FROM MASTER TO [MASTER TO ...]`, MASTER as `spark.master` or
`sc://HOST:PORT`; several masters, one after the other, share the driver's JVM.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id

from epochmq.spark import tune


def session(master: str) -> Any:
    """On a cluster executors are processes of their own, with little memory each."""
    if master.startswith("sc://"):
        return SparkSession.builder.remote(master).getOrCreate()
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


def run(spark: Any, namesrv: str, source: str, target: str) -> dict[str, Any]:
    """Copy the topic; what was read, and the master that Spark says it had."""
    given = {"nameServer": namesrv, "subscribe": source, "minPartitions": "4"}
    rows = spark.read.format("rocketmq").options(**given).load()
    written = rows.selectExpr("body", "tags", "keys")
    to = {"nameServer": namesrv, "topic": target}
    written.write.format("rocketmq").options(**to).mode("append").save()
    found = rows.select("body", spark_partition_id().alias("task")).collect()
    bodies = sorted(int(row.body) for row in found)
    tasks = len({row.task for row in found})
    return {"bodies": bodies, "partitions": tasks, "master": spark.conf.get("spark.master")}


def main(namesrv: str, source: str, *pairs: str) -> None:
    for master, target in zip(pairs[::2], pairs[1::2], strict=True):
        spark = session(master)
        print(json.dumps(run(spark, namesrv, source, target)), flush=True)
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
