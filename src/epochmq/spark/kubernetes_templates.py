"""Renders pod templates and settings for Spark on Kubernetes.

Spark creates the pods of a job from its settings; a pod template adds what has no setting, such as
the security context. Source: Spark 4, "Running Spark on Kubernetes", section "Pod Template".
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from epochmq.base.errors import UsageError
from epochmq.base.java_properties import format_properties
from epochmq.runtime.address_map import VARIABLE, parse_address_map

DRIVER, EXECUTOR, SETTINGS = "driver.yaml", "executor.yaml", "spark.conf"
SECRET_DIR = "/etc/epochmq"
"""Where pods see the files of the secret."""
SPARK_USER = 185
"""User id in images that are built from Spark's own Dockerfiles."""
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAMESPACE = re.compile(rf"(?=.{{1,63}}\Z){_LABEL}")
_ACCOUNT = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
_SECRET = re.compile(rf"(?=.{{0,56}}\Z)(?:{_LABEL})?")
"""Shorter than Kubernetes allows: Spark names a volume after the secret, with `-volume` behind."""
_IMAGE = re.compile(r"[\w][\w.:/@-]{0,511}", re.ASCII)
_TEMPLATE = """\
# Pod template of the {role}. Spark adds the image, the resources, and what {settings} says.
apiVersion: v1
kind: Pod
metadata:
  labels:
    app.kubernetes.io/name: epochmq-pipeline
    app.kubernetes.io/component: {role}
spec:
  securityContext:
    runAsNonRoot: true
    runAsUser: {user}
    fsGroup: {user}
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: spark
      securityContext:
        allowPrivilegeEscalation: false
        capabilities:
          drop: ["ALL"]
"""


@dataclass(frozen=True, slots=True)
class KubernetesJob:
    """What the files for one kind of job say.

    Attributes:
        image: image of driver and executors; it has Spark, and EpochMQ with `epochmq[spark]`.
        namespace: namespace of the pods.
        service_account: account with which the driver creates the executors' pods.
        secret: Kubernetes secret with certificates and keys, mounted at `SECRET_DIR`; may be empty.
        address_map: text of EPOCHMQ_ADDRESS_MAP for driver and executors; may be empty.
        user: user id of the processes in the image.

    Raises:
        UsageError: a name that Kubernetes does not accept, or an address map that is none.
    """

    image: str
    namespace: str = "default"
    service_account: str = "spark"
    secret: str = ""
    address_map: str = ""
    user: int = SPARK_USER

    def __post_init__(self) -> None:
        for what, name, form in (
            ("namespace", self.namespace, _NAMESPACE),
            ("service account", self.service_account, _ACCOUNT),
            ("secret for Spark", self.secret, _SECRET),
        ):
            if not form.fullmatch(name):
                dots = ", '-' and single '.'" if form is _ACCOUNT else " and '-'"
                raise UsageError(
                    f"{name!r} is not a name of a Kubernetes {what}: use lower-case letters,"
                    f" digits{dots}, with a letter or digit at both ends"
                )
        if not _IMAGE.fullmatch(self.image):
            raise UsageError(f"{self.image!r} is not an image: write REGISTRY/NAME:TAG")
        if self.user < 1:
            raise UsageError(f"user {self.user}: the pods do not run as root; use an id from 1 on")
        parse_address_map(self.address_map)


def render(job: KubernetesJob, place: Path) -> dict[str, str]:
    """Return the texts of the pod templates and of the settings, by file name.

    Args:
        job: what the files say.
        place: absolute path of the directory of the files; the settings name the templates in it.
    """
    return {
        DRIVER: _TEMPLATE.format(role="driver", settings=SETTINGS, user=job.user),
        EXECUTOR: _TEMPLATE.format(role="executor", settings=SETTINGS, user=job.user),
        SETTINGS: format_properties(_settings(job, place).items()),
    }


def _settings(job: KubernetesJob, place: Path) -> dict[str, str]:
    settings = {
        "spark.kubernetes.container.image": job.image,
        "spark.kubernetes.namespace": job.namespace,
        "spark.kubernetes.authenticate.driver.serviceAccountName": job.service_account,
        "spark.kubernetes.driver.podTemplateFile": str(place / DRIVER),
        "spark.kubernetes.executor.podTemplateFile": str(place / EXECUTOR),
        # The image has EpochMQ, so a job of `epochmq pipeline` must not send its archive.
        "spark.epochmq.package": "installed",
    }
    if job.secret:
        settings[f"spark.kubernetes.driver.secrets.{job.secret}"] = SECRET_DIR
        settings[f"spark.kubernetes.executor.secrets.{job.secret}"] = SECRET_DIR
    if job.address_map:
        settings[f"spark.kubernetes.driverEnv.{VARIABLE}"] = job.address_map
        settings[f"spark.executorEnv.{VARIABLE}"] = job.address_map
    return settings


def write(job: KubernetesJob, place: Path, *, replace: bool = False) -> list[Path]:
    """Write the files into the directory `place`, which is created. Return their paths.

    Files that are there with the same contents stay as they are.

    Raises:
        UsageError: a file is there with other contents, and `replace` is false. Nothing is written.
        OSError: a file cannot be read or written.
    """
    place = place.absolute()
    files = {place / name: text.encode() for name, text in render(job, place).items()}
    for path, data in files.items():
        if not replace and path.exists() and path.read_bytes() != data:
            raise UsageError(
                f"{path} has other contents: --force replaces it, or name another directory"
            )
    place.mkdir(parents=True, exist_ok=True)
    for path, data in files.items():
        path.write_bytes(data)
    return list(files)


def summary(job: KubernetesJob, place: Path) -> str:
    """Return a text for a person: the next command, and the options that use the secret."""
    conf = place.absolute() / SETTINGS
    lines = [
        "spark-submit --master k8s://https://API_SERVER:6443 --deploy-mode cluster \\",
        f"    --properties-file {shlex.quote(str(conf))} local:///PATH/IN/THE/IMAGE/app.py",
    ]
    if job.secret:
        lines.append(
            f"Pods see the files of secret {job.secret} in {SECRET_DIR}, for example"
            f" .option('tls.enable', 'true')"
            f".option('tls.client.trustCertPath', '{SECRET_DIR}/ca.pem')."
        )
    return "\n".join(lines)
