"""Session settings that help, each with what it was measured to do (docs/PIPELINE.md, "Settings").

Measured with PySpark 4.3 on 2 cores (facts/spark.md 4.2 and 8).
"""

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_SYSTEM_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
TASK_FAILURES_MAX = 4

SETTINGS: dict[str, str] = {
    # Workers talk to the JVM over a Unix socket: 44 of the 46 ms that a Python task takes to start
    # go. A micro-batch takes 107 to 133 ms instead of 162 to 172.
    "spark.python.unix.domain.socket.enabled": "true",
    # The default forks a process for each checkpoint file: writing the log takes 8 ms instead of
    # 28, committing 14 instead of 35. For local and strongly consistent file systems.
    "spark.sql.streaming.checkpointFileManagerClass": FILE_SYSTEM_CHECKPOINTS,
    # Rows of a batch from Spark to a sink in Python: 0.95 M rows/s, against 0.90 with 1000 and
    # 0.81 with the default of 10,000.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    # A stream with source and sink keeps 16 Python processes of 55 MB; more idle ones only cost.
    # Not measured by itself.
    "spark.python.factory.idleWorkerMaxPoolSize": "4",
    # Lets `pushdown=true` turn filters into ranges: 1.2 M rows filtered by offset take 0.23 s
    # instead of 1.10. Without that option it changes nothing for this source.
    "spark.sql.python.filterPushdown.enabled": "true",
    # A second copy of a slow task would send its messages a second time.
    "spark.speculation": "false",
}


def settings(cores: int, *, master: str | None = None) -> Iterator[tuple[str, str]]:
    """All settings for a machine with so many cores."""
    yield from SETTINGS.items()
    # Two hundred tasks, the default, are for clusters.
    yield "spark.sql.shuffle.partitions", str(cores)
    # Tasks are tried again only where a second number says how often: `local[2]` fails at once.
    yield "spark.master", master or f"local[{cores},{TASK_FAILURES_MAX}]"


def tune(builder: "SparkSession.Builder", *, master: str | None = None) -> "SparkSession.Builder":
    """The builder with all settings. What is set afterwards wins.

        spark = epochmq.spark.tune(SparkSession.builder.appName("flights")).getOrCreate()

    `master` is Spark's; without it all cores of this machine work, and failed tasks are tried
    again. Workers run the interpreter of this process, not whichever `python3` is found first,
    unless PYSPARK_PYTHON names another.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for key, value in settings(len(os.sched_getaffinity(0)), master=master):
        builder = builder.config(key, value)
    return builder


def register(spark: "SparkSession") -> None:
    """Make `format("rocketmq")` and `format("rocketmq-log")` known to a session.

    Spark finds them by itself where this package is installed; call this where it only lies on
    the driver's path (facts/spark.md 2.3).
    """
    import pyspark_rocketmq
    import pyspark_rocketmq_log

    spark.dataSource.register(pyspark_rocketmq.DefaultSource)
    spark.dataSource.register(pyspark_rocketmq_log.DefaultSource)
