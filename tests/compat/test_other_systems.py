"""The programs for other systems that the documentation compares with ours, on those systems.

Played by `make soak`, where the servers and the client libraries are installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .peers.cache import UnavailableError
from .peers.kafka import Kafka
from .peers.ports import free_port
from .peers.process import Process, is_listening

pytestmark = [pytest.mark.soak, pytest.mark.compat, pytest.mark.process]

PROGRAMS = Path(__file__).parents[2] / "examples" / "coming_from"
START_S = 60.0


def needs(library: str, server: str = "") -> None:
    """Skip the test if the client library or the server is not installed."""
    pytest.importorskip(library, reason=f"{library} is not installed: pip install {library}")
    if server and shutil.which(server) is None:
        pytest.skip(f"{server} is not installed: apt-get install {server}")


def lines_of(program: str, **environment: str) -> list[str]:
    """Return what a program prints."""
    done = subprocess.run(
        [sys.executable, PROGRAMS / program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@contextmanager
def running(
    argv: list[str], port: int, folder: Path, environment: dict[str, str] | None = None
) -> Iterator[None]:
    """Run a server, which keeps and logs everything in `folder`, until the block ends."""
    process = Process(argv[0], argv, folder / "server.log", environment or {})
    process.start()
    try:
        process.wait_ready(lambda: is_listening(port), START_S)
        yield
    finally:
        process.stop()


def test_kafka() -> None:
    needs("aiokafka")
    try:
        kafka = Kafka()
    except UnavailableError as error:
        pytest.skip(f"Kafka cannot be had: {error}")
    with kafka:
        kafka.create_topic("payments", 1)
        found = lines_of("aiokafka_program.py", KAFKA_SERVERS=kafka.address)
    assert found == ["anna paid 10", "anna paid 20", "anna paid 30"]


def test_nats(tmp_path: Path) -> None:
    needs("nats", "nats-server")
    port = free_port()
    argv = ["nats-server", "-js", "-a", "127.0.0.1", "-p", str(port), "-sd", str(tmp_path)]
    with running(argv, port, tmp_path):
        found = lines_of("nats_program.py", NATS_URL=f"nats://127.0.0.1:{port}")
    assert found == ["billed order 1", "tea costs 42"]


def test_rabbitmq() -> None:
    needs("aio_pika", "rabbitmq-server")
    # Debian's script in PATH starts the server as another user, in a session of its own.
    server = shutil.which("rabbitmq-server", path="/usr/lib/rabbitmq/bin") or "rabbitmq-server"
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="rabbitmq-"))  # node names make long paths of sockets
    environment = {
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(free_port()),
        "RABBITMQ_NODENAME": f"documented-{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_FEATURE_FLAGS_FILE": str(folder / "flags"),
    }
    try:
        with running([server], port, folder, environment):
            url = f"amqp://guest:guest@127.0.0.1:{port}/"
            found = lines_of("aio_pika_program.py", RABBITMQ_URL=url)
    finally:
        subprocess.run(["epmd", "-kill"], env={**os.environ, **environment}, check=False)
        shutil.rmtree(folder, ignore_errors=True)
    assert sorted(found) == ["resized cat.png", "resized dog.png"]
