"""The demo's Spark: the flights are archived while masters die, then SQL reports on the table.

Both are processes of their own: `epochmq pipeline archive`, as a user would start it, and this
module, which reads what was committed.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from epochmq.base.errors import EnvironmentFault
from epochmq.base.needs import need
from epochmq.spark.java_check import check_java
from examples.demo import environment
from examples.demo.flights import Delay, differences

FOLDER = "lake"
MASTER = "local[2]"
NO_SPARK = "none"
INTERVAL_S = 2.0
COLUMNS = "carrier string, hour int, dep_delay int"
STOP_S = 60.0
RUN_S = 180.0


class Facts(msgspec.Struct, frozen=True):
    """What SQL found in the table; a place is a queue and an offset in it."""

    rows: int
    places: int
    """Different ones; as many as rows unless something was archived twice."""
    gaps: int
    """Offsets between the first and the last of a queue that no row has."""
    flights: int
    """Different keys: a send that was tried again may be in the topic twice."""
    delays: list[Delay]


def missing() -> str | None:
    """Why Spark cannot run here, in one line; None when it can."""
    try:
        check_java()
        for module, extra in (("pyspark", "spark"), ("pyarrow", "spark"), ("deltalake", "lake")):
            need(module, extra)
    except EnvironmentFault as fault:
        return str(fault)
    return None


class Lake:
    """One table, fed by one process after the other."""

    def __init__(self, directory: Path, topic: str, say: Callable[[str], None]) -> None:
        self._folder = directory / FOLDER
        self.table = self._folder / topic
        self._log = directory / "logs" / "spark.log"
        self._topic = topic
        self._say = say
        self._stream: subprocess.Popen[bytes] | None = None

    def start(self, namesrv: str) -> None:
        """Archive what comes, from now on; the topic exists."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        command = self._archive(namesrv, MASTER, "--stream", "--interval", str(INTERVAL_S))
        with self._log.open("ab") as log:
            self._stream = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._say("Spark archives the topic to a Delta table meanwhile")

    def finish(self, namesrv: str) -> None:
        """Stop the stream, then archive the rest; the cluster is still up."""
        stream = self._stream
        if stream is not None and stream.poll() is not None:
            raise EnvironmentFault(f"the archive ended by itself; see {self._log}")
        self.stop()
        # Little is left: done before a JVM has started.
        self._run(self._archive(namesrv, NO_SPARK), "the archive's last part")

    def stop(self) -> None:
        """End the stream; it may be in the middle of something and is given time."""
        stream, self._stream = self._stream, None
        if stream is None or stream.poll() is not None:
            return
        stream.send_signal(signal.SIGINT)
        try:
            stream.wait(STOP_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(stream.pid, signal.SIGKILL)  # its JVM too
            stream.wait()

    def query(self) -> Facts:
        """The report over the table, by Spark SQL."""
        found = self._folder / "facts.json"
        module = "examples.demo.lake"
        self._run([sys.executable, "-m", module, str(self.table), str(found)], "Spark SQL")
        return msgspec.json.decode(found.read_bytes(), type=Facts)

    def _archive(self, namesrv: str, master: str, *more: str) -> list[str]:
        command = [sys.executable, "-m", "epochmq", "pipeline", "archive", self._topic]
        command += ["--namesrv", namesrv, "--table", str(self.table), "--format", "delta"]
        command += ["--typed", "json", "--typed-schema", COLUMNS, "--master", master]
        return [*command, *more]

    def _run(self, command: list[str], what: str) -> None:
        with self._log.open("ab") as log:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(),
                timeout=RUN_S,
            )
        if done.returncode:
            raise EnvironmentFault(f"{what} failed; see {self._log}")


def judge(facts: Facts, sent: int, source: Sequence[Delay]) -> list[str]:
    """What is wrong with the table; empty when it holds the data set, each message once."""
    problems = []
    if facts.rows != facts.places:
        problems.append(f"{facts.rows - facts.places:,} rows of the table are there twice")
    if facts.gaps:
        problems.append(f"the table lacks {facts.gaps:,} messages in the middle of queues")
    if facts.flights != sent:
        problems.append(f"the table holds {facts.flights:,} flights, {sent:,} were sent")
    return problems + differences(source, facts.delays)


def as_report(facts: Facts, seconds: float) -> dict[str, Any]:
    """For report.json."""
    return {
        "rows": facts.rows,
        "duplicates": facts.rows - facts.places,
        "gaps": facts.gaps,
        "flights": facts.flights,
        "sent_again": facts.rows - facts.flights,
        "report_rows": len(facts.delays),
        "seconds_after_the_last_message": round(seconds, 1),
    }


# Query ----------------------------------------------------------------------------------------
# `python -m examples.demo.lake TABLE FILE`: SQL over the archive, as JSON.


COUNTS = """
SELECT sum(n) AS rows, sum(places) AS places, sum(last - first + 1 - places) AS gaps FROM (
  SELECT count(*) AS n, count(DISTINCT queueOffset) AS places,
         min(queueOffset) AS first, max(queueOffset) AS last
  FROM flights GROUP BY brokerName, queueId)
"""
DELAYS = """
SELECT carrier, hour, count(*) AS flights, count(dep_delay) AS departed,
       coalesce(sum(dep_delay), 0) AS minutes
FROM (SELECT DISTINCT keys, carrier, hour, dep_delay FROM flights)
GROUP BY carrier, hour ORDER BY carrier, hour
"""


def facts_of(spark: Any, table: str) -> Facts:
    """What is in the table, and the report that the demo is about."""
    from epochmq.tables.opening import data_frame, open_table

    data_frame(spark, open_table(table)).createOrReplaceTempView("flights")
    (counts,) = spark.sql(COUNTS).collect()
    delays = [
        Delay(row.carrier, row.hour, row.flights, row.departed, row.minutes)
        for row in spark.sql(DELAYS).collect()
    ]
    flights = sum(delay.flights for delay in delays)
    return Facts(counts.rows or 0, counts.places or 0, counts.gaps or 0, flights, delays)


if __name__ == "__main__":
    from epochmq.spark.jobs.framework import spark_session

    with spark_session("epochmq demo", MASTER) as session:
        Path(sys.argv[2]).write_bytes(msgspec.json.encode(facts_of(session, sys.argv[1])))
