"""A stream and an archive on a standalone cluster without EpochMQ, while everything is killed.

Drivers, executors, workers and masters of the broker group are killed in turn, under load. What the
topic has at the end is in the copy and in the archive, each message exactly as often as in the
topic.
"""

import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.compat.peers.group import Group
from tests.compat.peers.process import Process, wait_until
from tests.compat.peers.records import read_topic
from tests.spark import topics

pytest.importorskip("pyspark.sql", reason="pip install 'epochmq[spark]'")

from tests.spark.jvm.standalone import StandaloneCluster, without_epochmq

from epochmq.base.errors import EpochError, NotFound
from epochmq.client.sync import Producer
from epochmq.model.message import Message
from epochmq.spark.cluster_package import build
from epochmq.tables.opening import arrow_dataset, open_table

pytestmark = [pytest.mark.process, pytest.mark.soak, pytest.mark.timeout(1500)]

TOPIC, COPY = "Killed", "KilledCopy"
UP_S = 300
CALM_S = 5
"""Between two kills."""
APP = """
import sys
from pyspark.sql import SparkSession
from epochmq.spark import register, tune
namesrv, topic, target, checkpoint, how = sys.argv[1:]
spark = tune(SparkSession.builder).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
register(spark)
source = dict(nameServer=namesrv, subscribe=topic, startingOffsets="earliest", minPartitions="4")
writer = (
    spark.readStream.format("rocketmq").options(**source).load().select("body", "keys")
    .writeStream.format("rocketmq").option("nameServer", namesrv).option("topic", target)
    .option("checkpointLocation", checkpoint)
)
ends = {"availableNow": True} if how == "until-now" else {"processingTime": "1 second"}
writer.trigger(**ends).start().awaitTermination()
"""
SMALL = ["--conf", "spark.cores.max=2", "--conf", "spark.executor.cores=1",
         "--conf", "spark.executor.memory=500m", "--conf", "spark.driver.memory=600m"]  # fmt: skip


class Load:
    """Sends numbered messages in a thread, each until it is acknowledged."""

    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self.acknowledged: list[bytes] = []

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _send(self) -> None:
        with Producer(self._namesrv, "killed-load") as producer:
            number = 0
            while not self._ended.is_set():
                body = b"%08d" % number
                with suppress(EpochError):
                    producer.send(Message(TOPIC, body, keys=[body.decode()]))
                    self.acknowledged.append(body)
                    number += 1
                self._ended.wait(0.005)


def executors(nodes: StandaloneCluster) -> list[int]:
    """The process ids of this cluster's executors, which work in its directories."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                is_executor = b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes()
                if is_executor and (entry / "cwd").readlink().is_relative_to(nodes.place):
                    found.append(int(entry.name))
    return sorted(found)


class Jobs:
    """The two drivers, which are started again after each kill."""

    def __init__(self, nodes: StandaloneCluster, place: Path, namesrv: str) -> None:
        self._nodes, self._place, self._namesrv = nodes, place, namesrv
        self.table = str(place / "archive")
        (place / "app.py").write_text(APP)
        self._package = str(build(place / "epochmq.zip").path)

    def copy(self, how: str) -> Process:
        given = (self._namesrv, TOPIC, COPY, str(self._place / "checkpoint"), how)
        options = ["--py-files", self._package, *SMALL]
        return self._nodes.start_driver("copy", self._place / "app.py", *given, options=options)

    def archive(self, *how: str) -> Process:
        argv = [sys.executable, "-m", "epochmq", "pipeline", "archive", TOPIC]
        argv += ["--table", self.table, "-n", self._namesrv, "--master", self._nodes.url]
        argv += [*SMALL, *how]
        env = {**self._nodes.node_env, "SPARK_LOCAL_IP": "127.0.0.1"}
        driver = Process("archive", argv, self._nodes.place / "archive.log", env)
        driver.start()
        return driver

    def archived(self) -> Counter[bytes]:
        try:
            rows = arrow_dataset(open_table(self.table)).to_table(columns=["body"])
        except NotFound:  # before the first batch
            return Counter()
        return Counter(rows["body"].to_pylist())


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with Group() as running:
        yield running


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("standalone"), cores=2) as running:
        assert without_epochmq(running.python)
        yield running


def wait_for(driver: Process, holds: Callable[[], bool]) -> None:
    """Wait until it holds; a driver that ends is reported at once."""

    def holds_or_dead() -> bool:
        return not driver.is_alive or holds()

    wait_until(holds_or_dead, UP_S, f"{driver.name} goes on")
    assert driver.is_alive, driver.log_tail()


def bodies(group: Group, topic: str) -> Counter[bytes]:
    master = group.master()
    assert master is not None
    return Counter(record.body for record in read_topic(master.address, topic))


def test_kills_of_everything_lose_and_repeat_nothing(
    group: Group, nodes: StandaloneCluster, tmp_path: Path
) -> None:
    for name in (TOPIC, COPY):
        topics.create(group.namesrv_addr, name, queues=4)
    jobs = Jobs(nodes, tmp_path, group.namesrv_addr)
    with Load(group.namesrv_addr) as load:
        copy, archive = jobs.copy("for ever"), jobs.archive("--stream", "--interval", "2")

        def grows() -> None:
            """Both jobs go on: each has rows that came after now."""
            known = len(load.acknowledged)
            wait_until(lambda: len(load.acknowledged) > known + 20, UP_S, "the load goes on")
            last = load.acknowledged[-1]
            wait_for(copy, lambda: last in bodies(group, COPY))
            wait_for(archive, lambda: last in jobs.archived())

        def kill_executors() -> None:
            found = executors(nodes)
            assert found
            for process in found:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

        def kill_worker() -> None:
            nodes.workers[0].kill9()
            time.sleep(CALM_S)
            nodes.start_worker(0)

        def kill_master() -> None:
            master = group.master()
            assert master is not None
            master.process.kill9()
            time.sleep(CALM_S)
            master.start()
            group.wait_ready()

        grows()
        for _ in range(2):
            kill_executors()
            grows()
            copy.kill9()
            copy = jobs.copy("for ever")
            kill_master()
            grows()
            kill_worker()
            grows()
            archive.kill9()
            archive = jobs.archive("--stream", "--interval", "2")
            kill_executors()
            kill_master()
            grows()
    for driver in (copy, archive):
        driver.kill9()
    for last in (jobs.copy("until-now"), jobs.archive()):
        wait_until(lambda last=last: not last.is_alive, UP_S, f"the last run of {last.name}")
        assert last.returncode == 0, last.log_tail()
    sent = bodies(group, TOPIC)
    assert not [body for body in load.acknowledged if body not in sent]
    print(f"{len(load.acknowledged)} acknowledged, {sent.total()} in the topic")
    assert bodies(group, COPY) == sent
    assert jobs.archived() == sent
