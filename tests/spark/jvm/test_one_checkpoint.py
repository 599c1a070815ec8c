"""Two queries with one checkpoint: one of them ends with an error, and nothing is written twice."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.process import wait_until
from tests.spark import topics
from tests.spark.jvm.driver import Driver
from tests.spark.jvm.streams import EVERY, copying, failure
from tests.spark.sinking import bodies

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]
COLLIDED = ("concurrent", "multiple streaming jobs")
"""What Spark says, in small letters, to the one that comes second at a place of the log."""


def test_two_drivers_on_one_checkpoint(
    spark: SparkSession, driver: Driver, cluster: EpochCluster, topic: str, tmp_path: Path
) -> None:
    """One of them here, one in a JVM of its own: neither knows of the other."""
    namesrv, stop, checkpoint = cluster.namesrv_addr, tmp_path / "stop", str(tmp_path / "at")
    target, sent = f"{topic}_to", 40
    given = {"namesrv": namesrv, "source": topic, "target": target, "checkpoint": checkpoint}
    queues = topics.fill(namesrv, topic, sent)
    topics.create(namesrv, target)
    writer = copying(spark, **given)
    mine = writer.trigger(processingTime=EVERY).start()
    wait_until(lambda: len(bodies(namesrv, target)) == sent, 120, "the first driver's rows")
    other = driver.ask("stream", "local[1,4]", stop=str(stop), **given)

    def collided() -> bool:
        nonlocal sent
        topics.send(namesrv, [(queues[sent % 2], topics.numbered(topic, sent))])
        sent += 1
        return not mine.isActive or other.done()

    try:
        wait_until(collided, 240, "one of them to notice the other")
    finally:
        stop.touch()
    said = other.result(240)
    mine.stop()
    errors = [each for each in (failure(mine), said["error"]) if each]
    assert len(errors) == 1
    assert any(each in errors[0].lower() for each in COLLIDED), errors
    # Whatever was left undone.
    assert writer.trigger(availableNow=True).start().awaitTermination(120)
    assert Counter(map(int, bodies(namesrv, target))) == Counter(range(sent))


def test_two_queries_of_one_session(
    spark: SparkSession, cluster: EpochCluster, topic: str, tmp_path: Path
) -> None:
    """Spark stops the older one (spark.sql.streaming.stopActiveRunOnRestart)."""
    namesrv, target = cluster.namesrv_addr, f"{topic}_to"
    queues = topics.fill(namesrv, topic, 40)
    topics.create(namesrv, target)
    writer = copying(spark, namesrv, topic, target, str(tmp_path / "at"))
    first = writer.start()
    wait_until(lambda: len(bodies(namesrv, target)) == 40, 120, "the first query's rows")
    second = writer.start()
    assert not first.isActive
    topics.send(namesrv, [(queues[n % 2], topics.numbered(topic, n)) for n in range(40, 60)])
    wait_until(lambda: len(bodies(namesrv, target)) >= 60, 120, "the second query's rows")
    second.stop()
    assert Counter(map(int, bodies(namesrv, target))) == Counter(range(60))
