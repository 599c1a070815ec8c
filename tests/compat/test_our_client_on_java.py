"""Our own client on upstream's name server and broker: the contract turned round."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .clients import OURS
from .conftest import QUICK_LEVELS, had
from .contract import ClientContract
from .peers.cluster import Cluster
from .peers.java import JavaCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with had(lambda: JavaCluster(broker_config={"messageDelayLevel": QUICK_LEVELS})) as running:
        yield running


class TestOursOnJava(ClientContract):
    client = OURS
