"""A driver of its own, as a user's program is: it does one thing after the other, on any master.

`python -m tests.spark.jvm.driver` takes a line of JSON for each, `{"do": NAME, ...}`, and answers
with one. What is asked on masters that differ shares the JVM, for that takes seconds to start.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id
from tests.spark.jvm.streams import EVERY, copying, failure

from epochmq.spark import tune

PROJECT = Path(__file__).resolve().parents[3]
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that lives for minutes: what its second compiler costs it never earns."""
MORE = {
    "spark.driver.extraJavaOptions": BRIEF,
    "spark.executor.extraJavaOptions": BRIEF,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "600m",
    "spark.cores.max": "2",
    "spark.log.level": "ERROR",
}


@contextmanager
def session(master: str) -> Iterator[Any]:
    """On a cluster executors are processes of their own, with little memory each."""
    if master.startswith("sc://"):
        builder = SparkSession.builder.remote(master)
    else:
        builder = tune(SparkSession.builder.appName("driver"), master=master)
        for key, value in MORE.items():
            builder = builder.config(key, value)
    made = builder.getOrCreate()
    try:
        yield made
    finally:
        made.stop()


def copy(master: str, namesrv: str, source: str, target: str) -> dict[str, Any]:
    """Copy a topic; what was read, and the master that Spark says it had."""
    with session(master) as spark:
        given = {"nameServer": namesrv, "subscribe": source, "minPartitions": "4"}
        rows = spark.read.format("rocketmq").options(**given).load()
        written = rows.selectExpr("body", "tags", "keys")
        to = {"nameServer": namesrv, "topic": target}
        written.write.format("rocketmq").options(**to).mode("append").save()
        found = rows.select("body", spark_partition_id().alias("task")).collect()
        bodies = sorted(int(row.body) for row in found)
        tasks = len({row.task for row in found})
        return {"bodies": bodies, "partitions": tasks, "master": spark.conf.get("spark.master")}


def stream(master: str, stop: str, **given: str) -> dict[str, Any]:
    """Copy it as a stream until the file `stop` is there or the query fails; what ended it."""
    with session(master) as spark:
        query = copying(spark, **given).trigger(processingTime=EVERY).start()
        while query.isActive and not Path(stop).exists():
            time.sleep(0.05)
        query.stop()
        return {"error": failure(query)}


WORK: Mapping[str, Callable[..., dict[str, Any]]] = {"copy": copy, "stream": stream}


def main() -> None:
    for line in sys.stdin:
        given = json.loads(line)
        print(json.dumps(WORK[given.pop("do")](**given)), flush=True)


def environ() -> dict[str, str]:
    """Workers are started by Spark, and must be this very Python."""
    this = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**os.environ, **this, "SPARK_DAEMON_JAVA_OPTS": BRIEF}


class Driver:
    """Such a process, from the test's side; started when it is first asked, and after a death."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._asking = ThreadPoolExecutor(1)

    def ask(self, do: str, master: str, **given: object) -> "Future[dict[str, Any]]":
        """What it answers; `AssertionError` with the end of its log when it dies instead.

        What is asked later is done later.
        """
        return self._asking.submit(self._ask, {"do": do, "master": master, **given})

    def _ask(self, given: Mapping[str, object]) -> dict[str, Any]:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps(given), file=process.stdin, flush=True)
        for line in process.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        raise AssertionError(f"the driver died\n{self._log.read_text()[-3000:]}")

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is None or self._process.poll() is not None:
            command = [sys.executable, "-m", "tests.spark.jvm.driver"]
            with self._log.open("a") as log:
                self._process = subprocess.Popen(
                    command,
                    cwd=PROJECT,
                    env=environ(),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
        return self._process

    def close(self) -> None:
        """It ends by itself when nothing more is asked."""
        self._asking.shutdown(cancel_futures=True)
        process = self._process
        if process is not None:
            with process:
                assert process.stdin is not None
                process.stdin.close()
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    process.kill()


if __name__ == "__main__":
    main()
