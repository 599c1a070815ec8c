"""Two queries with one checkpoint: one of them ends with an error, and nothing is written twice."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.process import wait_until
from tests.spark import topics
from tests.spark.jvm.test_masters import environ
from tests.spark.sinking import bodies

pytestmark = [pytest.mark.process, pytest.mark.tried_once, pytest.mark.timeout(400)]
STREAM = Path(__file__).with_name("one_stream.py")
FROM, TO = "SharedFrom", "SharedTo"


class Driver:
    """`one_stream.py` as a process; `error` is what its query ended with."""

    def __init__(self, namesrv: str, checkpoint: str, stop: str) -> None:
        command = [sys.executable, str(STREAM), namesrv, FROM, TO, checkpoint, stop]
        self._process = subprocess.Popen(
            command, env=environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.error = ""

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def finish(self) -> str:
        out, log = self._process.communicate(timeout=180)
        assert self._process.returncode == 0, log[-3000:]
        self.error = str(json.loads(out.splitlines()[-1])["error"])
        return self.error


def test_two_drivers_on_one_checkpoint(tmp_path: Path) -> None:
    stop, checkpoint = tmp_path / "stop", str(tmp_path / "checkpoint")
    with EpochCluster() as cluster:
        namesrv, sent = cluster.namesrv_addr, 40
        queues = topics.fill(namesrv, FROM, sent)
        topics.create(namesrv, TO)
        drivers = [Driver(namesrv, checkpoint, str(stop))]
        wait_until(lambda: len(bodies(namesrv, TO)) == sent, 120, "the first driver's rows")
        drivers.append(Driver(namesrv, checkpoint, str(stop)))

        def collided() -> bool:
            nonlocal sent
            topics.send(namesrv, [(queues[sent % 2], topics.numbered(FROM, sent))])
            sent += 1
            return any(driver.has_ended for driver in drivers)

        wait_until(collided, 120, "one of them to notice the other")
        stop.touch()
        told = [error for error in (driver.finish() for driver in drivers) if error]
        assert len(told) == 1
        assert "oncurrent" in told[0] or "Multiple streaming jobs detected" in told[0], told
        Driver(namesrv, checkpoint, "").finish()  # whatever was left undone
        found = Counter(int(body) for body in bodies(namesrv, TO))
        assert found == Counter(range(sent))


def test_two_queries_of_one_session(spark: SparkSession, tmp_path: Path) -> None:
    """Spark stops the older one (spark.sql.streaming.stopActiveRunOnRestart)."""
    from tests.spark.jvm.one_stream import start

    with EpochCluster() as cluster:
        namesrv = cluster.namesrv_addr
        queues = topics.fill(namesrv, FROM, 40)
        topics.create(namesrv, TO)
        writer = start(spark, namesrv, FROM, TO, str(tmp_path / "checkpoint"))
        first = writer.start()  # type: ignore[attr-defined]
        wait_until(lambda: len(bodies(namesrv, TO)) == 40, 60, "the first query's rows")
        second = writer.start()  # type: ignore[attr-defined]
        assert not first.isActive
        topics.send(namesrv, [(queues[n % 2], topics.numbered(FROM, n)) for n in range(40, 60)])
        wait_until(lambda: len(bodies(namesrv, TO)) >= 60, 60, "the second query's rows")
        second.stop()
        found = Counter(int(body) for body in bodies(namesrv, TO))
        assert found == Counter(range(60))
