"""A real name server and broker for the tests that need no JVM: started once a test process."""

import sys
import zlib
from collections.abc import Iterator

import pytest
from tests.compat.peers.epochmq import EpochCluster
from tests.spark.registry_server import RegistryServer, registry_server


@pytest.fixture(scope="session")
def cluster() -> Iterator[EpochCluster]:
    with EpochCluster() as running:
        yield running


@pytest.fixture
def schema_server() -> Iterator[RegistryServer]:
    """A schema registry without schemas."""
    with registry_server() as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of the test's own, of each try; it has to be created."""
    number = getattr(request.node, "execution_count", 1)
    return f"Spark_{zlib.crc32(request.node.nodeid.encode())}_{number}"


@pytest.fixture(scope="module", autouse=True)
def _connections_end() -> Iterator[None]:
    """What readers kept for the tasks that follow goes with the module that made it."""
    yield
    if rows := sys.modules.get("epochmq.spark.rows"):
        rows.close_clusters()
