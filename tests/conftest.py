"""Settings shared by all tests: how hard properties are tried, second tries, logging as it was.

A test that fails is tried once more with fresh fixtures, and the end of the run names it as FLAKY:
that is a bug to mend, in the test or in the product, but five thousand tests on a busy machine
must not depend on the luck of each. What looks for lost or repeated messages (the chaos runs, tests
marked ``tried_once``) is tried again only when it ran out of time: what it found stands. The
simulation is the same each time and never tried again.
"""

import logging
import os
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
    """Limit the second try of those whose first failure stands."""
    for item in items:
        if "sim" in item.path.parts:
            item.add_marker(pytest.mark.flaky(reruns=0))
        elif item.get_closest_marker("tried_once") or "chaos" in item.path.parts:
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=_OUT_OF_TIME))


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Name each test that needed its second try, with what the first one said."""
    first_failures = terminalreporter.stats.get("rerun", [])
    if first_failures:
        terminalreporter.section("FLAKY: failed at the first try", red=True)
    for report in first_failures:
        crash = getattr(report.longrepr, "reprcrash", None)
        said = crash.message if crash else str(report.longrepr)
        terminalreporter.line(f"FLAKY {report.nodeid} ({report.when}) - {said[:500]}")


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
