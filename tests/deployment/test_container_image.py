"""The image is built from its Containerfile by buildah, and its servers work.

The base image is made by debootstrap, so no registry of images is needed. It takes some minutes and
root.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BASE = "localhost/epochmq-base"
SEND_AND_READ = """
from epochmq import Message
from epochmq.client.sync import Producer
from epochmq.testing import MiniCluster

with MiniCluster() as cluster:
    with Producer(cluster.namesrv, "smoke") as producer:
        producer.send(Message("smoke", b"works"), timeout_ms=10_000)
    print([each.body for each in cluster.messages("smoke")])
"""

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("buildah") or not shutil.which("debootstrap"),
        reason="the image is built by root with buildah and debootstrap (apt-get install both)",
    ),
]


class Buildah:
    """Calls of buildah with images of their own, without the kernel features of a runtime."""

    def __init__(self, directory: Path) -> None:
        self._options = ["--root", f"{directory}/images", "--runroot", f"{directory}/run"]
        self._options += ["--storage-driver", "vfs"]

    def __call__(self, command: str, *args: str | Path) -> str:
        """Run one command and return what it printed. Asserts that it succeeds."""
        done = subprocess.run(
            ["buildah", *self._options, command, *map(str, args)],
            capture_output=True,
            text=True,
            env={**os.environ, "BUILDAH_ISOLATION": "chroot"},
            cwd=ROOT,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout.strip()


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Buildah, str]]:
    """A container of the image."""
    directory = tmp_path_factory.mktemp("buildah")
    system = directory / "debian"
    subprocess.run(
        ["debootstrap", "--variant=minbase", "--include=ca-certificates", "trixie", str(system)],
        check=True,
        capture_output=True,
    )
    buildah = Buildah(directory)
    scratch = buildah("from", "scratch")
    buildah("add", "-q", scratch, system, "/")
    buildah("commit", "-q", scratch, BASE)
    file = ROOT / "packaging" / "container" / "Containerfile"
    authorities = "/etc/ssl/certs:/etc/ssl/certs:ro"
    options = ["--pull-never", "--format", "docker", "--volume", authorities]
    buildah("bud", *options, "--build-arg", f"BASE={BASE}", "-f", file, "-t", "epochmq", ".")
    try:
        yield buildah, buildah("from", "localhost/epochmq")
    finally:
        buildah("rm", "--all")
        buildah("rmi", "--all")


def test_the_command_runs_as_a_user_without_rights(container: tuple[Buildah, str]) -> None:
    buildah, name = container
    assert "append: compiled" in buildah("run", name, "--", "epochmq", "--version")
    assert buildah("run", name, "--", "id", "-u") == "10001"


def test_nothing_of_the_build_is_left(container: tuple[Buildah, str]) -> None:
    buildah, name = container
    for path in ("/src", "/usr/bin/gcc", "/opt/epochmq/bin/pip"):
        assert buildah("run", name, "--", "sh", "-c", f"test -e {path} || echo none") == "none"


def test_servers_of_the_image_store_and_return_a_message(container: tuple[Buildah, str]) -> None:
    buildah, name = container
    printed = buildah("run", name, "--", "/opt/epochmq/bin/python", "-c", SEND_AND_READ)
    assert printed.endswith("[b'works']")


def test_the_image_has_a_health_check(container: tuple[Buildah, str]) -> None:
    buildah, name = container
    config = buildah("inspect", "--format", "{{.Docker.Config.Healthcheck.Test}}", name)
    assert "127.0.0.1:5557/-/healthy" in config
