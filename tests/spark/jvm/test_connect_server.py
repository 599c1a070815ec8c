"""Spark Connect with a server whose Python has neither EpochMQ nor msgspec."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.ports import free_port
from tests.compat.peers.process import Process, is_listening
from tests.spark import topics

pytest.importorskip("pyspark.sql", reason="pip install 'epochmq[spark]'")
pytest.importorskip("grpc", reason="pip install 'pyspark[connect]'")

from tests.spark.jvm.standalone import SPARK_HOME, node_python, without_epochmq

from epochmq.spark.cluster_package import build

pytestmark = [pytest.mark.process, pytest.mark.soak, pytest.mark.timeout(600)]

COUNT = 40
CLIENT = """
import os, sys
from pyspark.sql import SparkSession
from epochmq.spark import register
url, archive, namesrv, topic, target, checkpoint = sys.argv[1:]
spark = SparkSession.builder.remote(url).getOrCreate()
if archive:
    spark.addArtifacts(archive, pyfile=True)
register(spark)
source = dict(nameServer=namesrv, subscribe=topic, startingOffsets="earliest")
rows = spark.read.format("rocketmq").options(**source).load()
print("found", rows.select("body").distinct().count(), flush=True)
sink = dict(nameServer=namesrv, topic=target)
if checkpoint:
    stream = spark.readStream.format("rocketmq").options(**source).load().select("body")
    writer = stream.writeStream.format("rocketmq").options(**sink)
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    writer.start().awaitTermination()
else:
    rows.select("body", "keys").write.format("rocketmq").options(**sink).mode("append").save()
copied = spark.read.format("rocketmq").options(nameServer=namesrv, subscribe=target).load()
print("copied", copied.count(), flush=True)
os._exit(0)  # the client of PySpark 4.3 keeps threads
"""


@contextmanager
def connect_server(place: Path, python_path: str = "") -> Iterator[str]:
    """A server on loopback; its URL."""
    python = node_python(place / "node")
    assert without_epochmq(python)
    port = free_port()
    settings = {
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    argv = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[2]"]
    for name, value in settings.items():
        argv += ["--conf", f"{name}={value}"]
    argv += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    environment = {
        "PYTHONPATH": python_path,
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "EPOCHMQ_UNPACK_DIR": str(place / "unpacked"),
    }
    server = Process("connect", argv, place / "connect.log", environment)
    server.start()
    try:
        server.wait_ready(lambda: is_listening(port), 120)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.stop(10)


def run_client(place: Path, *arguments: str) -> str:
    (place / "client.py").write_text(CLIENT)
    done = subprocess.run(
        [sys.executable, str(place / "client.py"), *arguments],
        env={name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


@pytest.mark.parametrize("how", ["artifact of the client", "archive at the server"])
def test_the_server_needs_no_installation(
    cluster: EpochCluster, topic: str, tmp_path: Path, how: str
) -> None:
    """An artifact of the session serves batch queries, an archive in PYTHONPATH streams, too."""
    topics.fill(cluster.namesrv_addr, topic, COUNT)
    target = topics.create(cluster.namesrv_addr, f"{topic}_copy")[0].topic
    archive = str(build(tmp_path / "epochmq.zip").path)
    is_artifact = how.startswith("artifact")
    with connect_server(tmp_path, "" if is_artifact else archive) as url:
        place = (cluster.namesrv_addr, topic, target)
        rest = (archive, *place, "") if is_artifact else ("", *place, str(tmp_path / "checkpoint"))
        said = run_client(tmp_path, url, *rest)
    assert said.split() == ["found", str(COUNT), "copied", str(COUNT)]
