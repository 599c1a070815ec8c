"""The cluster under test, and a summary of what could not be had."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from .drivers.driver import Driver
from .peers.cache import UnavailableError
from .peers.cluster import Cluster, Config
from .peers.epochmq import EpochCluster
from .peers.java import JavaCluster

T = TypeVar("T")
PEER = os.environ.get("EPOCHMQ_COMPAT_PEER", "epochmq")

# Level 2 is told from the others; a retry begins at level 3 and must not take minutes.
QUICK_LEVELS = " ".join(["1s", "2s", *["1s"] * 16])


_MINUTES = frozenset(
    f"test_{name}.py"
    for name in (
        *("acting_clients", "acting_master", "clients_together", "controller_java_broker"),
        *("controller_table", "failover_clients", "kill9", "mqadmin_controller", "pre_online"),
        *("replication_java", "store_files", "transactions"),
    )
)
"""Files that are begun before the others (tests/conftest.py)."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here takes seconds and may need a third party."""
    for item in items:
        if "compat" in item.path.parts:
            item.add_marker(pytest.mark.compat)
            if item.path.name in _MINUTES:
                item.add_marker(pytest.mark.slow)


def make_cluster(config: Config | None = None) -> Cluster:
    """A cluster of the peer that the environment names: ours unless EPOCHMQ_COMPAT_PEER=java."""
    settings = {"messageDelayLevel": QUICK_LEVELS, **(config or {})}
    if PEER == "java":
        return had(lambda: JavaCluster(broker_config=settings))
    return EpochCluster(broker_config=settings)


def had(get: Callable[[], T]) -> T:
    """What ``get`` returns; skips with the reason when a third party's program cannot be had."""
    try:
        return get()
    except UnavailableError as missing:
        pytest.skip(f"cannot be had: {missing}")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One cluster a module; tests keep apart by their topics and groups."""
    with make_cluster() as running:
        yield running


@pytest.fixture(scope="class")
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    """The test class's client, one process for all its tests."""
    with had(request.cls.client.build) as started:
        yield started


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what was skipped even in a quiet run: a silent gap looks like a pass."""
    reasons: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        if "compat" in report.nodeid:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "?"
            where = report.nodeid.split("::test_")[0]
            key = f"{where}: {reason.removeprefix('Skipped: ')}"
            reasons[key] = reasons.get(key, 0) + 1
    if reasons:
        terminalreporter.section("third parties: not tested")
        for key, count in sorted(reasons.items()):
            terminalreporter.line(f"{count} x {key}")
