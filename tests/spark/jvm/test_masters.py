"""The same job on every kind of master: executors that are other processes, and Spark Connect.

All servers start at once, for starting a JVM is most of the work and much of that is waiting.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.ports import free_port
from tests.compat.peers.process import is_listening, wait_until
from tests.spark import topics

from epochmq.spark.cluster import Cluster

JOB = Path(__file__).with_name("job.py")
HOME = Path(pyspark.__file__).parent
COUNT = 60
SOURCE = "From"
DEPLOY = "org.apache.spark.deploy"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
UP_S, JOB_S = 300, 600
pytestmark = [pytest.mark.process, pytest.mark.timeout(1200)]


def environ() -> dict[str, str]:
    """Workers are started by Spark, and must be this very Python."""
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


@contextmanager
def daemon(name: str, *arguments: str, log: Path) -> Iterator[None]:
    """A server of Spark's own, as `spark-class` starts it."""
    with log.open("wb") as out:
        command = [str(HOME / "bin" / "spark-class"), name, *arguments]
        process = subprocess.Popen(command, env=environ(), stdout=out, stderr=out)
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def standalone(place: Path) -> Iterator[tuple[int, str]]:
    """A master and two workers, which join when they are up; its port and URL."""
    port, web = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    at = ("--host", "127.0.0.1")
    here = ("--port", str(port), "--webui-port", str(web))
    size = ("--cores", "1", "--memory", "700m", "--work-dir", str(place / "work"))
    with (
        daemon(f"{DEPLOY}.master.Master", *at, *here, log=place / "master.log"),
        daemon(f"{DEPLOY}.worker.Worker", *at, *size, url, log=place / "one.log"),
        daemon(f"{DEPLOY}.worker.Worker", *at, *size, url, log=place / "two.log"),
    ):
        yield port, url


@contextmanager
def connect(place: Path) -> Iterator[tuple[int, str]]:
    """A server of Spark Connect; its port and URL."""
    port = free_port()
    command = ["--master", "local[2,4]", "--class", CONNECT]
    for setting in (
        f"spark.connect.grpc.binding.port={port}",
        "spark.connect.grpc.binding.address=127.0.0.1",
        "spark.driver.host=127.0.0.1",
        "spark.driver.bindAddress=127.0.0.1",
        "spark.ui.enabled=false",
    ):
        command += ["--conf", setting]
    log = place / "connect.log"
    with daemon(f"{DEPLOY}.SparkSubmit", *command, "spark-internal", log=log):
        yield port, f"sc://127.0.0.1:{port}"


def run_job(namesrv: str, ports: list[int], *pairs: str) -> list[dict[str, Any]]:
    """What it says of each master and target, once the servers listen."""
    for port in ports:
        wait_until(lambda port=port: is_listening(port), UP_S, f"Spark on port {port}")
    command = [sys.executable, str(JOB), namesrv, SOURCE, *pairs]
    done = subprocess.run(command, env=environ(), capture_output=True, text=True, timeout=JOB_S)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@dataclass
class Jobs:
    """Two drivers, side by side."""

    namesrv: str
    executors: "Future[list[dict[str, Any]]]"
    """On executors of their own, then on those of a standalone cluster."""
    connect: "Future[list[dict[str, Any]]]"

    def check(self, found: dict[str, Any], master: str, target: str) -> None:
        """It read everything, there, and what it wrote arrived."""
        assert (found["bodies"], found["partitions"]) == (list(range(COUNT)), 4)
        assert found["master"].startswith(master)
        with Cluster(self.namesrv) as view:
            held = sum(end - start for start, end in view.bounds(target).values())
        assert held == COUNT


@pytest.fixture(scope="module")
def jobs(cluster: EpochCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    namesrv = cluster.namesrv_addr
    with ExitStack() as stack:
        place = tmp_path_factory.mktemp("masters")
        port, url = stack.enter_context(standalone(place))
        gate, remote = stack.enter_context(connect(place))
        topics.fill(namesrv, SOURCE, COUNT)
        for target in ("ToLocalCluster", "ToStandalone", "ToConnect"):
            topics.create(namesrv, target)
        pool = stack.enter_context(ThreadPoolExecutor(2))
        pairs = ("local-cluster[2,1,700]", "ToLocalCluster", url, "ToStandalone")
        yield Jobs(
            namesrv,
            pool.submit(run_job, namesrv, [port], *pairs),
            pool.submit(run_job, namesrv, [gate], remote, "ToConnect"),
        )


def test_spark_connect(jobs: Jobs) -> None:
    (found,) = jobs.connect.result()
    jobs.check(found, "local[2,4]", "ToConnect")


def test_executors_of_their_own(jobs: Jobs) -> None:
    found = jobs.executors.result()[0]
    jobs.check(found, "local-cluster", "ToLocalCluster")


def test_a_master_and_two_workers(jobs: Jobs) -> None:
    found = jobs.executors.result()[1]
    jobs.check(found, "spark://", "ToStandalone")
