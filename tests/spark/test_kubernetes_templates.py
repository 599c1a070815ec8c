"""Files for Spark on Kubernetes: their texts, what is refused, and what is not overwritten."""

from pathlib import Path

import pytest

from epochmq.base.errors import UsageError
from epochmq.base.java_properties import parse_properties
from epochmq.spark.kubernetes_templates import (
    DRIVER,
    EXECUTOR,
    SECRET_DIR,
    SETTINGS,
    KubernetesJob,
    render,
    summary,
    write,
)

IMAGE = "registry.example:5000/epochmq-spark:1.0"
SAFE = ("runAsNonRoot: true", "allowPrivilegeEscalation: false", 'drop: ["ALL"]', "RuntimeDefault")


def test_a_job_without_secret_and_map_has_no_setting_for_them() -> None:
    texts = render(KubernetesJob(IMAGE), Path("/job"))
    assert list(texts) == [DRIVER, EXECUTOR, SETTINGS]
    for template in (texts[DRIVER], texts[EXECUTOR]):
        assert [word for word in SAFE if word not in template] == []
    settings = parse_properties(texts[SETTINGS])
    assert settings["spark.kubernetes.container.image"] == IMAGE
    assert settings["spark.kubernetes.executor.podTemplateFile"] == "/job/executor.yaml"
    assert not [key for key in settings if "secrets" in key or "ADDRESS_MAP" in key]


def test_driver_and_executors_get_secret_and_addresses() -> None:
    job = KubernetesJob(IMAGE, secret="tls", address_map="10.0.0.5=b.example")
    settings = parse_properties(render(job, Path("/a place/ü"))[SETTINGS])
    assert settings["spark.kubernetes.driver.secrets.tls"] == SECRET_DIR
    assert settings["spark.kubernetes.executor.secrets.tls"] == SECRET_DIR
    assert settings["spark.kubernetes.driverEnv.EPOCHMQ_ADDRESS_MAP"] == "10.0.0.5=b.example"
    assert settings["spark.executorEnv.EPOCHMQ_ADDRESS_MAP"] == "10.0.0.5=b.example"
    assert settings["spark.kubernetes.driver.podTemplateFile"] == "/a place/ü/driver.yaml"
    assert "'/a place/ü/spark.conf'" in summary(job, Path("/a place/ü"))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"namespace": "Upper"}, "'Upper' is not a name of a Kubernetes namespace"),
        ({"namespace": ""}, "'' is not a name of a Kubernetes namespace"),
        ({"namespace": "a.b"}, "'a.b' is not a name of a Kubernetes namespace"),
        ({"namespace": "n" * 64}, "is not a name of a Kubernetes namespace"),
        ({"service_account": "a..b"}, "is not a name of a Kubernetes service account"),
        ({"secret": "a.b"}, "'a.b' is not a name of a Kubernetes secret"),
        ({"secret": "s" * 57}, "is not a name of a Kubernetes secret"),
        ({"service_account": "a_b"}, "'a_b' is not a name of a Kubernetes service account"),
        ({"secret": "a=b\nc"}, "is not a name of a Kubernetes secret"),
        ({"secret": "x" * 254}, "is not a name of a Kubernetes secret"),
        ({"image": "a b"}, "'a b' is not an image"),
        ({"image": "x\nspark.master=local"}, "is not an image"),
        ({"user": 0}, "the pods do not run as root"),
        ({"address_map": "10.0.0.5"}, "is not a pair of addresses"),
    ],
)
def test_what_kubernetes_refuses_is_refused(fields: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        KubernetesJob(**{"image": IMAGE, **fields})  # type: ignore[arg-type]


def test_other_texts_are_replaced_only_on_request(tmp_path: Path) -> None:
    place = tmp_path / "new" / "job"
    paths = write(KubernetesJob(IMAGE), place)
    assert write(KubernetesJob(IMAGE), place) == paths
    (place / EXECUTOR).write_bytes(b"\xff mine")
    with pytest.raises(UsageError, match=r"executor\.yaml has other contents: --force"):
        write(KubernetesJob(IMAGE), place)
    with pytest.raises(UsageError, match=r"driver\.yaml has other contents: --force"):
        write(KubernetesJob(IMAGE, user=7), place)
    assert "185" in (place / DRIVER).read_text()
    write(KubernetesJob(IMAGE, user=7), place, replace=True)
    assert all("runAsUser: 7" in (place / name).read_text() for name in (DRIVER, EXECUTOR))
