"""One small cluster of ours for all commands that administer one, and one with replicas."""

from collections.abc import Iterator

import pytest
from tests.admin.replicated import Replicas
from tests.admin.world import World, world_on
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.secure import ADMIN_ENV, SECURE


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    with world_on(EpochCluster()) as filled:
        yield filled


@pytest.fixture(scope="module")
def secure() -> Iterator[World]:
    """An empty cluster whose broker checks signatures and policies; commands sign as `admin`."""
    with EpochCluster(broker_config=SECURE) as running:
        yield World(running, env=ADMIN_ENV)


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """Three brokers, three controllers and a name server, which take 15 per cent of a core even
    while they do nothing: they end with the file that uses them."""
    with Replicas(tmp_path_factory.mktemp("replicas")) as running:
        yield running
