"""A real name server and broker for the tests that need no JVM: started once a test process."""

import zlib
from collections.abc import Iterator

import pytest
from tests.compat.peers.epochmq import EpochCluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[EpochCluster]:
    with EpochCluster() as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of the test's own; it has to be created."""
    return f"Spark_{zlib.crc32(request.node.nodeid.encode())}"
