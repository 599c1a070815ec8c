"""Spark reads the files of `epochmq pipeline kubernetes` and creates pods from them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark.sql", reason="pip install 'epochmq[spark]'")

from tests.compat.peers.process import Process, wait_until
from tests.spark.jvm.kubernetes_api import KubernetesApi, kubernetes_api
from tests.spark.jvm.standalone import SPARK_HOME

from epochmq.spark.kubernetes_templates import SECRET_DIR, SETTINGS, KubernetesJob, write

pytestmark = [pytest.mark.process, pytest.mark.timeout(200)]

SUBMIT_TIMEOUT_S = 120
JOB = KubernetesJob(
    "registry.example/epochmq-spark:1",
    namespace="pipelines",
    service_account="runner",
    secret="certificates",
    address_map="10.0.0.5:10911=broker-a.example:30911",
    user=1001,
)
MAP = {"name": "EPOCHMQ_ADDRESS_MAP", "value": JOB.address_map}


def check_pod(pod: dict[str, Any]) -> None:
    """Compare a pod with what the job and the templates say."""
    spec = pod["spec"]
    (container,) = spec["containers"]
    assert pod["metadata"]["namespace"] == "pipelines"
    assert pod["metadata"]["labels"]["app.kubernetes.io/name"] == "epochmq-pipeline"
    assert container["image"] == JOB.image
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 1001
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes[mounts[SECRET_DIR]]["secret"]["secretName"] == "certificates"
    assert MAP in [{key: env.get(key) for key in ("name", "value")} for env in container["env"]]


@contextmanager
def submitted(api: KubernetesApi, place: Path, app: str, *options: str) -> Iterator[Process]:
    """Run `spark-submit` with the written files; it is stopped at the end if it still runs."""
    write(JOB, place / "job")
    argv = [SPARK_HOME / "bin" / "spark-submit", "--master", api.url, *options,
            "--properties-file", place / "job" / SETTINGS,
            "--conf", "spark.kubernetes.submission.waitAppCompletion=false",
            "--conf", "spark.ui.enabled=false", app]  # fmt: skip
    environment = {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
    process = Process("spark-submit", argv, place / "submit.log", environment)
    process.start()
    try:
        yield process
    finally:
        process.stop(10)


def test_the_driver_is_created_as_the_files_say(tmp_path: Path) -> None:
    in_cluster = ("local:///app.py", "--deploy-mode", "cluster")
    with kubernetes_api() as api, submitted(api, tmp_path, *in_cluster) as process:
        wait_until(lambda: not process.is_alive, SUBMIT_TIMEOUT_S, "spark-submit ends")
        assert process.returncode == 0, process.log_tail()
        pod = api.wait_pod("driver", 0)
        check_pod(pod)
        assert pod["metadata"]["labels"]["app.kubernetes.io/component"] == "driver"
        assert pod["spec"]["serviceAccountName"] == "runner"


@pytest.mark.soak
def test_executors_are_created_as_the_files_say(tmp_path: Path) -> None:
    """The driver runs here, as it does in its pod, and asks for one executor."""
    app = tmp_path / "app.py"
    app.write_text(
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "spark.range(1).rdd.map(str).count()\n"
    )
    one = ("--deploy-mode", "client", "--conf", "spark.executor.instances=1")
    with kubernetes_api() as api, submitted(api, tmp_path, str(app), *one):
        pod = api.wait_pod("executor", SUBMIT_TIMEOUT_S)
        check_pod(pod)
        assert pod["metadata"]["labels"]["app.kubernetes.io/component"] == "executor"
