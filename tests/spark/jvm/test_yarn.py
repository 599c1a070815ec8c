"""`spark-submit` and jobs on YARN, whose node does not have EpochMQ."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.peers.cache import UnavailableError
from tests.compat.peers.epochmq import EpochCluster
from tests.spark import topics

pytest.importorskip("pyspark.sql", reason="pip install 'epochmq[spark]'")

from tests.compat.peers.yarn import Yarn
from tests.spark.jvm.standalone import SPARK_HOME, node_python, without_epochmq
from tests.spark.jvm.test_submit import APP

from epochmq.spark.cluster_package import build

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]

TIMEOUT_S = 250
SIZES = {
    "spark.executor.instances": "2",
    "spark.executor.memory": "500m",
    "spark.driver.memory": "600m",
    "spark.yarn.am.memory": "500m",
    "spark.ui.enabled": "false",
    "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",
}


@pytest.fixture(scope="module")
def yarn() -> Iterator[Yarn]:
    try:
        made = Yarn()
    except UnavailableError as missing:
        pytest.skip(f"Hadoop's YARN cannot be had: {missing}")
    with made as running:
        yield running


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of the node: numpy, pyarrow and PySpark."""
    made = node_python(tmp_path_factory.mktemp("node"))
    assert without_epochmq(made)
    return made


def environment(yarn: Yarn, python: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": "",
        "HADOOP_CONF_DIR": str(yarn.conf),
        "PYSPARK_PYTHON": str(python),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def options(python: Path, place: Path) -> list[str]:
    """Sizes, and what the containers are told: loopback, their Python, where to unpack."""
    told = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(python),
        "EPOCHMQ_UNPACK_DIR": str(place / "unpacked"),
    }
    conf = dict(SIZES)
    for name, value in told.items():
        conf[f"spark.yarn.appMasterEnv.{name}"] = conf[f"spark.executorEnv.{name}"] = value
    return [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]


@pytest.mark.parametrize("mode", ["cluster", pytest.param("client", marks=pytest.mark.soak)])
def test_one_archive_is_all_that_yarn_needs(
    cluster: EpochCluster, topic: str, yarn: Yarn, python: Path, mode: str, tmp_path: Path
) -> None:
    """Batch read, stream and sink, with the driver in a container and outside."""
    target = f"{topic}_copy"
    topics.fill(cluster.namesrv_addr, topic, 200)
    topics.create(cluster.namesrv_addr, target)
    archive = build(tmp_path / "epochmq.zip").path
    (tmp_path / "app.py").write_text(APP)
    argv = [SPARK_HOME / "bin" / "spark-submit", "--master", "yarn", "--deploy-mode", mode]
    argv += ["--py-files", archive, *options(python, tmp_path), tmp_path / "app.py"]
    argv += [cluster.namesrv_addr, topic, target, tmp_path / "check"]
    done = subprocess.run(
        [str(word) for word in argv], env=environment(yarn, python), cwd=tmp_path,
        capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
    )  # fmt: skip
    printed = yarn.output() if mode == "cluster" else done.stdout
    assert done.returncode == 0, printed + done.stderr[-5000:]
    assert "found 200 yarn" in printed, printed + done.stderr[-5000:]
    assert "copied 200" in printed
    assert "executors {('unpacked', True)}" in printed


@pytest.mark.soak
def test_a_job_on_yarn_brings_the_package_itself(
    cluster: EpochCluster, topic: str, yarn: Yarn, python: Path, tmp_path: Path
) -> None:
    topics.fill(cluster.namesrv_addr, topic, 100)
    submitted = " ".join(options(python, tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "epochmq", "pipeline", "archive", topic, "--table",
         str(tmp_path / "table"), "-n", cluster.namesrv_addr, "--master", "yarn"],
        env={**environment(yarn, python), "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
             "PYSPARK_SUBMIT_ARGS": f"{submitted} pyspark-shell"},
        capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "100" in done.stdout
