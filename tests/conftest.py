"""Settings shared by all tests: how hard properties are tried, second tries, logging as it was.

A test that fails is tried once more with fresh fixtures, and the end of the run names it as FLAKY:
that is a bug to mend, in the test or in the product, but five thousand tests on a busy machine
must not depend on the luck of each. What looks for lost or repeated messages (the chaos runs, tests
marked ``tried_once``) is tried again only when it ran out of time: what it found stands. The
simulation is the same each time and never tried again.
"""

import gc
import logging
import os
from collections import Counter
from collections.abc import Iterator

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import HealthCheck, settings

# A slow machine is no bug, so no property has a deadline; pytest's own timeout catches hangs.
_QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=_QUIET)
settings.register_profile(
    "ci",
    max_examples=200,
    deadline=None,
    suppress_health_check=_QUIET,
    database=None,
    print_blob=True,
)
settings.register_profile(
    "campaign", max_examples=10_000, deadline=None, suppress_health_check=_QUIET
)
settings.load_profile(
    os.environ.get("EPOCHMQ_PROPERTIES") or ("ci" if os.environ.get("CI") else "dev")
)

_OUT_OF_TIME = ["TimeoutError", "TimeoutExpired", "Failed: Timeout"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files, and limit the second try of those whose first failure stands.

    A worker takes file by file (`--dist=loadfile --no-loadscope-reorder`): the longest begin, so
    that none of them is left to one worker at the end.
    """
    counts = Counter(item.path for item in items)
    slow = {item.path for item in items if _is_slow(item)}
    items.sort(key=lambda item: (item.path not in slow, -counts[item.path]))  # files stay whole
    for item in items:
        if "sim" in item.path.parts:
            item.add_marker(pytest.mark.flaky(reruns=0))
        elif item.get_closest_marker("tried_once") or "chaos" in item.path.parts:
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=_OUT_OF_TIME))


def _is_slow(item: pytest.Item) -> bool:
    """Few tests take minutes: histories, and what says so."""
    return "sim" in item.path.parts or item.get_closest_marker("slow") is not None


def pytest_collection_finish() -> None:
    """Thousands of tests and what they import stay to the end: the collector need not go through
    them each time, nor wait, before it looks for what tests left, until there is as much of it.
    """
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Name each test that needed its second try, with what the first one said."""
    first_failures = terminalreporter.stats.get("rerun", [])
    if first_failures:
        terminalreporter.section("FLAKY: failed at the first try", red=True)
    for report in first_failures:
        crash = getattr(report.longrepr, "reprcrash", None)
        said = crash.message if crash else str(report.longrepr)
        terminalreporter.line(f"FLAKY {report.nodeid} ({report.when}) - {said[:500]}")


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
