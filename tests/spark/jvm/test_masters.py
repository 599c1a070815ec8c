"""The same job on every kind of master: executors that are other processes, and Spark Connect."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.ports import free_port
from tests.compat.peers.process import wait_until
from tests.spark import topics

from epochmq.spark.cluster import Cluster

JOB = Path(__file__).with_name("job.py")
HOME = Path(pyspark.__file__).parent
COUNT = 60
pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EpochCluster]:
    with EpochCluster() as running:
        topics.fill(running.namesrv_addr, "From", COUNT)
        yield running


def environ() -> dict[str, str]:
    """Workers are started by Spark, and must be this very Python."""
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def is_open(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def run_job(cluster: EpochCluster, master: str, target: str) -> None:
    """It reads everything, and what it writes arrives."""
    namesrv = cluster.namesrv_addr
    topics.create(namesrv, target)
    command = [sys.executable, str(JOB), master, namesrv, "From", target]
    done = subprocess.run(command, env=environ(), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {"bodies": list(range(COUNT)), "partitions": 4}
    with Cluster(namesrv) as view:
        held = sum(end - start for start, end in view.bounds(target).values())
    assert held == COUNT


@contextmanager
def daemon(name: str, *arguments: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server of Spark's own, as `spark-class` starts it."""
    with log.open("wb") as out:
        command = [str(HOME / "bin" / "spark-class"), name, *arguments]
        process = subprocess.Popen(command, env=environ(), stdout=out, stderr=out)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)


def test_executors_of_their_own(cluster: EpochCluster) -> None:
    run_job(cluster, "local-cluster[2,1,700]", "ToLocalCluster")


def test_a_master_and_two_workers(cluster: EpochCluster, tmp_path: Path) -> None:
    port, web = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    at = ("--host", "127.0.0.1")
    deploy = "org.apache.spark.deploy"
    logs = [tmp_path / f"{name}.log" for name in ("master", "one", "two")]
    here = ("--port", str(port), "--webui-port", str(web))
    size = ("--cores", "1", "--memory", "700m", "--work-dir", str(tmp_path / "work"))
    with (
        daemon(f"{deploy}.master.Master", *at, *here, log=logs[0]),
        daemon(f"{deploy}.worker.Worker", *at, *size, url, log=logs[1]),
        daemon(f"{deploy}.worker.Worker", *at, *size, url, log=logs[2]),
    ):
        # Workers join when they are up; the job waits for them.
        wait_until(lambda: is_open(port), 120, "Spark's master")
        run_job(cluster, url, "ToStandalone")


def test_spark_connect(cluster: EpochCluster, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="pip install 'pyspark[connect]'")
    port, log = free_port(), tmp_path / "connect.log"
    name = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = ["--master", "local[2,4]", "--class", name]
    for setting in (
        f"spark.connect.grpc.binding.port={port}",
        "spark.connect.grpc.binding.address=127.0.0.1",
        "spark.driver.host=127.0.0.1",
        "spark.driver.bindAddress=127.0.0.1",
        "spark.ui.enabled=false",
    ):
        command += ["--conf", setting]
    with daemon("org.apache.spark.deploy.SparkSubmit", *command, "spark-internal", log=log):
        wait_until(lambda: is_open(port), 120, "Spark Connect")
        run_job(cluster, f"sc://127.0.0.1:{port}", "ToConnect")
