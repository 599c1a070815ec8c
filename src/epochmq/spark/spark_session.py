"""Spark session settings, each with its measured effect (docs/PIPELINE.md, "Settings").

Measured with PySpark 4.3 on 2 cores.
"""

import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_SYSTEM_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
TASK_FAILURES_MAX = 4

UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"

SETTINGS: dict[str, str] = {
    # Workers talk to the JVM over a Unix socket, which saves 44 of the 46 ms that a Python task
    # takes to start. A micro-batch takes 107 to 133 ms instead of 162 to 172.
    UNIX_SOCKETS: "true",
    # The default forks a process for each checkpoint file: writing the log takes 8 ms instead of
    # 28, committing 14 instead of 35. For local and strongly consistent file systems.
    "spark.sql.streaming.checkpointFileManagerClass": FILE_SYSTEM_CHECKPOINTS,
    # Rows of a batch from Spark to a sink in Python: 0.95 M rows/s, against 0.90 with 1000 and
    # 0.81 with the default of 10,000.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    # A stream with source and sink keeps 16 Python processes of 55 MB; more idle ones only cost.
    # Not measured by itself.
    "spark.python.factory.idleWorkerMaxPoolSize": "4",
    # Lets `pushdown` turn filters into ranges: 1.2 M rows filtered by offset take 0.23 s
    # instead of 1.10. Without that option it changes nothing for this source.
    "spark.sql.python.filterPushdown.enabled": "true",
    # A second copy of a slow task would send its messages a second time.
    "spark.speculation": "false",
}


def settings(cores: int, *, master: str | None = None) -> Iterator[tuple[str, str]]:
    """Yield all settings for `cores` cores; `master` is Spark's master URL, by default local."""
    yield from SETTINGS.items()
    # The default of 200 tasks is for clusters.
    yield "spark.sql.shuffle.partitions", str(cores)
    # Spark retries failed tasks only with a second number: with `local[2]` a task fails at once.
    yield "spark.master", master or f"local[{cores},{TASK_FAILURES_MAX}]"


def tune(builder: "SparkSession.Builder", *, master: str | None = None) -> "SparkSession.Builder":
    """Add to the builder all settings that are not set yet, and return it.

        spark = epochmq.spark.tune(SparkSession.builder.appName("flights")).getOrCreate()

    These count as set: the builder's own `.config`, `.master` and `.remote` calls, the options of
    `spark-submit` or `pyspark`, PYSPARK_SUBMIT_ARGS, SPARK_REMOTE, and spark-defaults.conf. Values
    that are set on the builder afterwards win as well.

    Args:
        builder: `SparkSession.builder`, or what its methods return.
        master: Spark's master URL; wins over all others. Without it, and if no other is set, Spark
            uses all cores of this machine and retries failed tasks.

    Workers run the Python interpreter of this process, unless PYSPARK_PYTHON or
    `spark.pyspark.python` names another.
    """
    known = configured(builder)
    if not known.keys() & {"spark.pyspark.python", "spark.remote"}:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "spark.remote" in known and master is None:
        known.setdefault("spark.master", "")  # a client of Spark Connect has no master of its own
    chosen = master or known.get("spark.master", "local")
    if not chosen.startswith("local"):
        known.setdefault("spark.sql.shuffle.partitions", "")  # Spark's own number is for clusters
    if chosen.startswith("yarn"):
        known.setdefault(UNIX_SOCKETS, "")  # a container's directory is too long for their paths
    for key, value in settings(len(os.sched_getaffinity(0)), master=master):
        if key not in known or (key == "spark.master" and master is not None):
            builder = builder.config(key, value)
    return builder


def configured(builder: "SparkSession.Builder") -> dict[str, str]:
    """Return the Spark settings that this process has before a session is created."""
    found = {
        **_defaults_file(),
        **submit_arguments(os.environ.get("PYSPARK_SUBMIT_ARGS", "")),
        **_submitted(),
    }
    if remote := os.environ.get("SPARK_REMOTE"):
        found["spark.remote"] = remote
    found.update({key: str(value) for key, value in getattr(builder, "_options", {}).items()})
    return found


def _submitted() -> dict[str, str]:
    """Return the settings of the JVM from which `spark-submit` started this program."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def submit_arguments(text: str) -> dict[str, str]:
    """Parse the settings in options of `spark-submit`, as PYSPARK_SUBMIT_ARGS holds them."""
    found: dict[str, str] = {}
    try:
        words = shlex.split(text)
    except ValueError:
        return found  # Spark itself reports this error
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if not equals:
            value = words[at + 1] if at + 1 < len(words) else ""
        if name == "--master":
            found["spark.master"] = value
        elif name == "--remote":
            found["spark.remote"] = value
        elif name in ("--conf", "-c"):
            key, _, setting = (word.partition("=")[2] if equals else value).partition("=")
            found[key] = setting
    return found


def _defaults_file() -> dict[str, str]:
    """Return the settings in spark-defaults.conf, from the directory where Spark reads it."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else "")
    path = Path(folder, "spark-defaults.conf")
    if not folder or not path.is_file():
        return {}
    lines = (line.strip() for line in path.read_text(errors="replace").splitlines())
    pairs = (re.split(r"[\s=:]+", line, maxsplit=1) for line in lines if line[:1] not in ("", "#"))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def register(spark: "SparkSession") -> None:
    """Register `format("rocketmq")` and `format("rocketmq-log")` with a Spark session.

    Spark finds the formats by itself where this package is installed. Call this where the package
    comes from an archive (`spark-submit --py-files`), or is only on the driver's path.
    """
    import pyspark_rocketmq
    import pyspark_rocketmq_log

    unpacked = unpacked_paths(__file__)
    if unpacked and hasattr(spark, "sparkContext"):
        # Spark's planner of streams is a Python process beside the driver. It looks for the files
        # of `--py-files` in a directory that does not exist, so it needs the unpacked archive.
        environment = spark.sparkContext.environment
        known = [environment["PYTHONPATH"]] if environment.get("PYTHONPATH") else []
        environment["PYTHONPATH"] = os.pathsep.join([*unpacked, *known])
    spark.dataSource.register(pyspark_rocketmq.DefaultSource)
    spark.dataSource.register(pyspark_rocketmq_log.DefaultSource)


def unpacked_paths(module_file: str) -> list[str]:
    """Return the import paths of the unpacked archive that a module is from; else an empty list."""
    code = Path(module_file).parents[2]
    packages = code.with_name("packages")
    return [str(code), str(packages)] if code.name == "code" and packages.is_dir() else []
