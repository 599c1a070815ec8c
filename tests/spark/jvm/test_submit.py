"""`spark-submit` to a cluster whose Python does not have EpochMQ: one file brings it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.compat.peers.epochmq import EpochCluster
from tests.spark import topics

import epochmq

pytest.importorskip("pyspark.sql", reason="pip install 'epochmq[spark]'")
pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

SOURCES = Path(epochmq.__file__).parents[1]
PACKAGES = ("epochmq", "pyspark_rocketmq", "pyspark_rocketmq_log")
HIDE = f"""import sys
sys.path[:] = [each for each in sys.path if each != {str(SOURCES)!r}]
"""
APP = """
import sys
from pyspark.sql import SparkSession
from epochmq.spark import register, tune
spark = tune(SparkSession.builder.config("spark.ui.enabled", "false")).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
register(spark)
rows = spark.read.format("rocketmq").options(nameServer=sys.argv[1], subscribe=sys.argv[2])
count = rows.option("minPartitions", "4").load().select("body").distinct().count()
print("found", count, "by", spark.sparkContext.master, sys.modules["epochmq"].__file__)
spark.stop()
"""


def wheel(place: Path) -> Path:
    """What `pip wheel` makes, without the compiled parts and the metadata."""
    made = place / "epochmq-1-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for package in PACKAGES:
            for file in (SOURCES / package).rglob("*.py"):
                archive.write(file, file.relative_to(SOURCES))
    return made


def test_a_wheel_given_by_py_files_is_all_a_cluster_needs(
    cluster: EpochCluster, topic: str, tmp_path: Path
) -> None:
    topics.fill(cluster.namesrv_addr, topic, 20)
    (tmp_path / "sitecustomize.py").write_text(HIDE)
    (tmp_path / "app.py").write_text(APP)
    import pyspark

    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    master = "local-cluster[1,1,1024]"
    done = subprocess.run(
        [str(submit), "--master", master, "--py-files", str(wheel(tmp_path)),
         str(tmp_path / "app.py"), cluster.namesrv_addr, topic],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYSPARK_PYTHON": sys.executable,
             "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=250,
    )  # fmt: skip
    assert f"found 20 by {master} {tmp_path}" in done.stdout, done.stdout + done.stderr[-5000:]
