"""A cluster of its own: these tests send messages, and others count those of the shared one."""

from collections.abc import Iterator

import pytest
from tests.admin.world import World, world_on
from tests.compat.peers.epochmq import EpochCluster


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with world_on(EpochCluster()) as filled:
        yield filled
