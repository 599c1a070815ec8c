"""The same job on every kind of master: executors that are other processes, and Spark Connect.

All servers start at once, for starting a JVM is most of the work and much of that is waiting.
"""

import subprocess
from collections.abc import Iterator
from concurrent.futures import Future
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
from tests.spark.jvm.driver import Driver, environ

from epochmq.spark.spark_cluster import Cluster

HOME = Path(pyspark.__file__).parent
COUNT = 60
SOURCE = "From"
DEPLOY = "org.apache.spark.deploy"
UP_S = 300
pytestmark = [pytest.mark.process, pytest.mark.timeout(1200)]


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


@dataclass
class Jobs:
    """One job on each master, under way; all their rows come from one topic."""

    namesrv: str
    executors: "Future[dict[str, Any]]"
    """On executors of its own."""
    workers: "Future[dict[str, Any]]"
    """Then on those of a standalone cluster."""

    def check(self, found: dict[str, Any], master: str, target: str) -> None:
        """It read everything, there, and what it wrote arrived."""
        assert (found["bodies"], found["partitions"]) == (list(range(COUNT)), 4)
        assert found["master"].startswith(master)
        with Cluster(self.namesrv) as view:
            held = sum(end - start for start, end in view.bounds(target).values())
        assert held == COUNT


@pytest.fixture(scope="module")
def jobs(
    driver: Driver, cluster: EpochCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Jobs]:
    place, namesrv = tmp_path_factory.mktemp("masters"), cluster.namesrv_addr
    given = {"namesrv": namesrv, "source": SOURCE}
    with ExitStack() as stack:
        port, url = stack.enter_context(standalone(place))
        topics.fill(namesrv, SOURCE, COUNT)
        for target in ("ToLocalCluster", "ToStandalone", "ToConnect"):
            topics.create(namesrv, target)
        local = "local-cluster[2,1,700]"
        jobs = Jobs(
            namesrv,
            driver.ask("copy", local, **given, target="ToLocalCluster"),
            driver.ask("copy", url, **given, target="ToStandalone"),
        )
        wait_until(lambda: is_listening(port), UP_S, "Spark's master")
        yield jobs


def test_spark_connect(jobs: Jobs, remote: str, tmp_path: Path) -> None:
    """A client without a JVM, while the others work."""
    client = Driver(tmp_path / "client.log")
    given = {"namesrv": jobs.namesrv, "source": SOURCE, "target": "ToConnect"}
    try:
        jobs.check(client.ask("copy", remote, **given).result(), "local[2,4]", "ToConnect")
    finally:
        client.close()


def test_executors_of_their_own(jobs: Jobs) -> None:
    found = jobs.executors.result()
    jobs.check(found, "local-cluster", "ToLocalCluster")


def test_a_master_and_two_workers(jobs: Jobs) -> None:
    found = jobs.workers.result()
    jobs.check(found, "spark://", "ToStandalone")
