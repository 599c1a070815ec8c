"""Settings shared by all tests: how hard properties are tried, the order of files, logging.

A test is run once, and a failure stands: one that comes and goes is a bug, in the test or in the
product. So nothing here depends on luck: properties try the same examples each time. `make soak`
tries new ones, and plays new histories of the simulator.
"""

import gc
import logging
import os
from collections import Counter
from collections.abc import Collection, Container, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.same_code import check_same_code
from tests.tiers import FIRST_SEED, LEVEL, QUICK, SOAK, LandingTests
from xdist.scheduler import LoadFileScheduling

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
    return f"tests of level {LEVEL}, fresh seeds from EPOCHMQ_SEED={FIRST_SEED} on"


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse to run where a broker that a test starts would be another clone's."""
    if not hasattr(session.config, "workerinput"):
        try:
            check_same_code(Path(epochmq.__file__))
        except ValueError as error:
            raise pytest.UsageError(str(error)) from error


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this level does not play, and order the files.

    A worker plays file by file (`--dist=loadfile --no-loadscope-reorder`): the longest begin, so
    that none of them is left to one worker at the end.
    """
    long: Container[str] = LandingTests.read() if QUICK else ()
    left_out = [
        item
        for item in items
        if (not SOAK and item.get_closest_marker("soak") is not None) or item.nodeid in long
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
    for item in items:
        if "java_cluster" in _fixtures(item) and item.path.name not in JAVA_FILES:
            raise pytest.UsageError(f"{item.path} starts Java's broker: name it in JAVA_FILES")
    counts = Counter(item.path for item in items)
    slow = {item.path for item in items if _is_slow(item)}
    items.sort(  # files stay whole
        key=lambda item: (
            not _is_java(item.nodeid),
            not _is_history(item),
            item.path not in slow,
            -counts[item.path],
        )
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Give all files that start Java's broker to one worker, one after the other."""
    return OneJava(config, log) if config.getoption("dist") == "loadfile" else None


class OneJava(LoadFileScheduling):
    """A broker of Java's that does nothing takes a quarter of a core: one is enough."""

    def _split_scope(self, nodeid: str) -> str:
        return "java" if _is_java(nodeid) else super()._split_scope(nodeid)


JAVA_FILES = frozenset(
    f"test_{name}.py"
    for name in (
        "admin_calls",
        "admin_cluster",
        "admin_groups",
        "admin_messages",
        "admin_namesrv",
        "admin_progress",
        "admin_topics",
        "bulk_calls",
        "pop_calls",
        "pop_consumer",
    )
)
"""Of `tests/client/aio`."""


def _is_java(nodeid: str) -> bool:
    folder, _slash, name = nodeid.partition("::")[0].rpartition("/")
    return folder == "tests/client/aio" and name in JAVA_FILES


def _fixtures(item: pytest.Item) -> Collection[str]:
    """The fixtures of a test; `java_cluster` stands for those that may ask for it."""
    names = frozenset(getattr(item, "fixturenames", ()))
    return names | {"java_cluster"} if names & {"any_cluster", "pop_cluster"} else names


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
