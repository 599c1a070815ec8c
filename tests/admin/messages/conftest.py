"""The cluster of all administration tests, and a topic of a test's own."""

import zlib

import pytest
from tests.admin.world import World


@pytest.fixture
def namesrv(world: World) -> str:
    return world.cluster.namesrv_addr


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """The first send creates it."""
    return f"Lines_{zlib.crc32(request.node.nodeid.encode())}"
