"""`spark-submit` to a standalone cluster whose nodes and driver do not have EpochMQ."""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.peers.epochmq import EpochCluster
from tests.spark import topics

import epochmq

pytest.importorskip("pyspark.sql", reason="pip install 'epochmq[spark]'")

from tests.spark.jvm.standalone import StandaloneCluster, without_epochmq

from epochmq.spark.cluster_package import build

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

SOURCES = Path(epochmq.__file__).parents[1]
PACKAGES = ("epochmq", "pyspark_rocketmq", "pyspark_rocketmq_log")
APP = """
import sys
from pyspark.sql import SparkSession
from epochmq.spark import register, tune
spark = tune(SparkSession.builder).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
register(spark)
namesrv, topic, target, checkpoint = sys.argv[1:]
source = dict(nameServer=namesrv, subscribe=topic, startingOffsets="earliest", minPartitions="4")
rows = spark.read.format("rocketmq").options(**source).load()

def look(_number):
    import epochmq
    from epochmq.spark import decode_native
    home = [part for part in ("unpacked", "site") if part in epochmq.__file__.split("/")]
    return (*home, decode_native.library() is not None)

print("executors", set(spark.sparkContext.parallelize(range(8), 8).map(look).collect()))
print("found", rows.select("body").distinct().count(), spark.sparkContext.master)
query = (
    spark.readStream.format("rocketmq").options(**source).load().select("body", "keys")
    .writeStream.format("rocketmq").option("nameServer", namesrv).option("topic", target)
    .option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
)
query.awaitTermination()
copied = spark.read.format("rocketmq").options(nameServer=namesrv, subscribe=target).load()
print("copied", copied.select("body").distinct().count())
spark.stop()
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("standalone")) as running:
        assert without_epochmq(running.python)
        yield running


def test_one_archive_is_all_that_a_cluster_needs(
    cluster: EpochCluster, topic: str, nodes: StandaloneCluster, tmp_path: Path
) -> None:
    """Batch read, stream and sink; executors decode with the compiled library."""
    topics.fill(cluster.namesrv_addr, topic, 200)
    topics.create(cluster.namesrv_addr, f"{topic}_copy")
    archive = build(tmp_path / "epochmq.zip").path
    (tmp_path / "app.py").write_text(APP)
    done = nodes.submit(
        tmp_path / "app.py", cluster.namesrv_addr, topic, f"{topic}_copy", str(tmp_path / "check"),
        options=["--py-files", str(archive)],
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    assert f"found 200 {nodes.url}" in done.stdout, done.stdout + done.stderr[-5000:]
    assert "copied 200" in done.stdout
    assert "executors {('unpacked', True)}" in done.stdout


@pytest.mark.soak
def test_nodes_may_have_epochmq_installed(
    cluster: EpochCluster, topic: str, nodes: StandaloneCluster, tmp_path: Path
) -> None:
    """The second way: EpochMQ and msgspec are in the nodes' own environment."""
    import msgspec

    topics.fill(cluster.namesrv_addr, topic, 20)
    topics.create(cluster.namesrv_addr, f"{topic}_copy")
    for package in PACKAGES:
        shutil.copytree(SOURCES / package, tmp_path / "site" / package)
    shutil.copytree(Path(msgspec.__file__).parent, tmp_path / "site" / "msgspec")
    (tmp_path / "app.py").write_text(APP)
    environment = {"PYTHONPATH": str(tmp_path / "site")}
    done = nodes.submit(
        tmp_path / "app.py", cluster.namesrv_addr, topic, f"{topic}_copy", str(tmp_path / "check"),
        options=["--conf", f"spark.executorEnv.PYTHONPATH={tmp_path / 'site'}"], env=environment,
    )  # fmt: skip
    assert "found 20" in done.stdout, done.stdout + done.stderr[-5000:]
    assert "executors {('site', True)}" in done.stdout


@pytest.mark.soak
def test_nodes_may_unpack_a_whole_environment(
    cluster: EpochCluster, topic: str, nodes: StandaloneCluster, tmp_path: Path
) -> None:
    """The third way: `--archives` with an environment that has EpochMQ."""
    import msgspec

    topics.fill(cluster.namesrv_addr, topic, 20)
    topics.create(cluster.namesrv_addr, f"{topic}_copy")
    (site,) = nodes.python.parents[1].glob("lib/python*/site-packages")
    packed = tmp_path / "environment.tar.gz"
    with tarfile.open(packed, "w:gz", dereference=True, compresslevel=1) as tar:
        tar.add(nodes.python.parents[1] / "pyvenv.cfg", "pyvenv.cfg")
        tar.add(Path(sys.executable).resolve(), "bin/python")
        libraries = Path("lib", site.parent.name, "site-packages")
        for name in ("numpy", "numpy.libs", "pyarrow"):
            tar.add(site / name, libraries / name)
        tar.add(Path(msgspec.__file__).parent, libraries / "msgspec")
        for package in PACKAGES:
            tar.add(SOURCES / package, libraries / package)
    (tmp_path / "app.py").write_text(APP)
    # The driver plans sources with the executors' Python: the same path must exist beside it.
    shutil.unpack_archive(packed, nodes.place / "site")
    done = nodes.submit(
        tmp_path / "app.py", cluster.namesrv_addr, topic, f"{topic}_copy", str(tmp_path / "check"),
        options=["--archives", f"{packed}#site"],
        env=dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), "./site/bin/python"),
    )  # fmt: skip
    assert "found 20" in done.stdout, done.stdout + done.stderr[-5000:]
    assert "executors {('site', True)}" in done.stdout


def test_a_job_brings_the_package_itself(
    cluster: EpochCluster, topic: str, nodes: StandaloneCluster, tmp_path: Path
) -> None:
    """`epochmq pipeline archive --master spark://...` needs nothing on the nodes."""
    topics.fill(cluster.namesrv_addr, topic, 100)
    done = subprocess.run(
        [sys.executable, "-m", "epochmq", "pipeline", "archive", topic, "--table",
         str(tmp_path / "table"), "-n", cluster.namesrv_addr, "--master", nodes.url],
        env={**os.environ, **nodes.node_env, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True, text=True, check=False, timeout=250,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "100" in done.stdout
