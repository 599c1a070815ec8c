"""Settings shared by all tests: how hard properties are tried, the order of files, logging.

A test is run once, and a failure stands: one that comes and goes is a bug, in the test or in the
product. So nothing here depends on luck: properties try the same examples each time. `make soak`
tries new ones, and plays new histories of the simulator.
"""

import gc
import logging
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.same_code import check_same_code
from tests.tiers import FIRST_SEED, SOAK

import epochmq

# A slow machine is no bug, so no property has a deadline; pytest's own timeout catches hangs.
_QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile(
    "dev",
    max_examples=50,
    deadline=None,
    suppress_health_check=_QUIET,
    derandomize=True,
    database=None,
    print_blob=True,
)
settings.register_profile(
    "soak",
    max_examples=2_000,
    deadline=None,
    suppress_health_check=_QUIET,
    derandomize=False,
    print_blob=True,
)
settings.load_profile(os.environ.get("EPOCHMQ_PROPERTIES", "dev"))


def pytest_report_header() -> str:
    """Print which tests this run plays, see `tests/tiers.py`."""
    played = "everything" if SOAK else "a sample"
    return f"histories: {played}, fresh seeds from EPOCHMQ_SEED={FIRST_SEED} on"


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse to run where a broker that a test starts would be another clone's."""
    if not hasattr(session.config, "workerinput"):
        try:
            check_same_code(Path(epochmq.__file__))
        except ValueError as error:
            raise pytest.UsageError(str(error)) from error


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups afterwards
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only `make soak` plays, order the files, and give each to one worker.

    A worker plays file by file (`--dist=loadgroup --no-loadscope-reorder`): the longest begin, so
    that none of them is left to one worker at the end. The files of `tests/client/aio` that start
    Java's broker are played by one worker, one after the other.
    """
    if not SOAK:
        left_out = [item for item in items if item.get_closest_marker("soak") is not None]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item.get_closest_marker("soak") is None]
    counts = Counter(item.path for item in items)
    slow = {item.path for item in items if _is_slow(item)}
    java = {item.path for item in items if _JAVA.intersection(getattr(item, "fixturenames", ()))}
    items.sort(  # files stay whole
        key=lambda item: (
            item.path not in java,
            not _is_history(item),
            item.path not in slow,
            -counts[item.path],
        )
    )
    for item in items:
        group = "java" if item.path in java else item.nodeid.partition("::")[0]
        item.add_marker(pytest.mark.xdist_group(group))


_JAVA = frozenset(("java_cluster", "any_cluster", "pop_cluster"))
"""Fixtures of `tests/client/aio` that start RocketMQ's broker."""


def _is_slow(item: pytest.Item) -> bool:
    """Few tests take minutes: histories, and what says so."""
    return _is_history(item) or item.get_closest_marker("slow") is not None


def _is_history(item: pytest.Item) -> bool:
    return "sim" in item.path.parts


def pytest_collection_finish() -> None:
    """Thousands of tests and what they import stay to the end: the collector need not go through
    them each time, nor wait, before it looks for what tests left, until there is as much of it.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _nothing_stays() -> Iterator[None]:
    """What the tests of a file left in knots (brokers, whole disks in memory) goes with it."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """A server command run in this process sets up the root logger; the next test has its own."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    for handler in [each for each in root.handlers if each not in handlers]:
        if getattr(handler, "epochmq", False):
            root.removeHandler(handler)
            handler.close()
