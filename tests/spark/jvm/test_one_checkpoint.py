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
from tests.spark.jvm.one_stream import EVERY, copying, failure
from tests.spark.jvm.test_masters import environ
from tests.spark.sinking import bodies

pytestmark = [pytest.mark.process, pytest.mark.tried_once, pytest.mark.timeout(600)]
PROJECT = Path(__file__).resolve().parents[3]
COLLIDED = ("concurrent", "multiple streaming jobs")
"""What Spark says, in small letters, to the one that comes second at a place of the log."""


def test_two_drivers_on_one_checkpoint(
    spark: SparkSession, cluster: EpochCluster, tmp_path: Path
) -> None:
    """One of them here, one in a JVM of its own: neither knows of the other."""
    namesrv, stop, checkpoint = cluster.namesrv_addr, tmp_path / "stop", str(tmp_path / "at")
    given, sent = (namesrv, "OneFrom", "OneTo", checkpoint), 40
    queues = topics.fill(namesrv, "OneFrom", sent)
    topics.create(namesrv, "OneTo")
    writer = copying(spark, *given)
    mine = writer.trigger(processingTime=EVERY).start()
    wait_until(lambda: len(bodies(namesrv, "OneTo")) == sent, 120, "the first driver's rows")
    command = [sys.executable, "-m", "tests.spark.jvm.one_stream", *given, str(stop)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=PROJECT, env=environ(), text=True, **pipes) as other:

        def collided() -> bool:
            nonlocal sent
            topics.send(namesrv, [(queues[sent % 2], topics.numbered("OneFrom", sent))])
            sent += 1
            return not mine.isActive or other.poll() is not None

        wait_until(collided, 240, "one of them to notice the other")
        stop.touch()
        said, log = other.communicate(timeout=240)
        assert other.returncode == 0, log[-3000:]
    mine.stop()
    errors = [each for each in (failure(mine), json.loads(said.splitlines()[-1])["error"]) if each]
    assert len(errors) == 1
    assert any(each in errors[0].lower() for each in COLLIDED), errors
    # Whatever was left undone.
    assert writer.trigger(availableNow=True).start().awaitTermination(120)
    assert Counter(map(int, bodies(namesrv, "OneTo"))) == Counter(range(sent))


def test_two_queries_of_one_session(
    spark: SparkSession, cluster: EpochCluster, tmp_path: Path
) -> None:
    """Spark stops the older one (spark.sql.streaming.stopActiveRunOnRestart)."""
    namesrv = cluster.namesrv_addr
    queues = topics.fill(namesrv, "TwoFrom", 40)
    topics.create(namesrv, "TwoTo")
    writer = copying(spark, namesrv, "TwoFrom", "TwoTo", str(tmp_path / "at"))
    first = writer.start()
    wait_until(lambda: len(bodies(namesrv, "TwoTo")) == 40, 120, "the first query's rows")
    second = writer.start()
    assert not first.isActive
    topics.send(namesrv, [(queues[n % 2], topics.numbered("TwoFrom", n)) for n in range(40, 60)])
    wait_until(lambda: len(bodies(namesrv, "TwoTo")) >= 60, 120, "the second query's rows")
    second.stop()
    assert Counter(map(int, bodies(namesrv, "TwoTo"))) == Counter(range(60))
