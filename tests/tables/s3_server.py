"""An S3 server on loopback, and the environment of those who use it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.compat.peers.ports import free_port
from tests.compat.peers.process import Process, is_listening


@contextmanager
def s3_server(directory: Path) -> Iterator[str]:
    """Yield the endpoint of a server; it is a process of its own, because delta-rs holds Python's
    lock while it waits for an answer."""
    port = free_port()
    argv = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = Process("s3", argv, directory / "s3.log", {})
    process.start()
    try:
        process.wait_ready(lambda: is_listening(port), 60)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill9()


def s3_environment(endpoint: str) -> dict[str, str]:
    """The variables that lead all libraries to the server."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def make_bucket(endpoint: str, name: str) -> None:
    """Create a bucket, unless it exists."""
    import s3fs

    s3fs.S3FileSystem(
        endpoint_url=endpoint, key="test", secret="test", skip_instance_cache=True
    ).makedirs(name, exist_ok=True)
