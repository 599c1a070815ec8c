"""Fixtures for pytest: `epochmq_cluster`, `epochmq_replicas` and `epochmq_session_cluster`.

pytest loads this module by itself where EpochMQ is installed, and
`-p no:epochmq.testing.pytest_plugin` prevents that. The servers are imported and started only by a
test that uses one of the fixtures.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from epochmq.testing.mini_cluster import MiniCluster


@pytest.fixture
def epochmq_cluster() -> "Iterator[MiniCluster]":
    """A new cluster of one name server and one broker for each test."""
    from epochmq.testing.mini_cluster import MiniCluster

    with MiniCluster() as cluster:
        yield cluster


@pytest.fixture
def epochmq_replicas() -> "Iterator[MiniCluster]":
    """A new group of three brokers with three controllers for each test."""
    from epochmq.testing.mini_cluster import MiniCluster

    with MiniCluster(3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def epochmq_session_cluster() -> "Iterator[MiniCluster]":
    """One cluster of one name server and one broker for all tests; use other topics in each."""
    from epochmq.testing.mini_cluster import MiniCluster

    with MiniCluster() as cluster:
        yield cluster
