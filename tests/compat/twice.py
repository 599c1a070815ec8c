"""A third-party client that fails by itself gets one more try, and the run says so at its end.

Only tests marked ``tried_twice``, and only when the client's program failed or was late: what an
assertion found wrong in the broker's answers or its store stays found. Tests of lost messages,
and everything of ours, are tried once.
"""

from __future__ import annotations

import pytest
from _pytest.runner import runtestprotocol

OTHERS_FAULTS = ("ScenarioError", "TimeoutError")
_FIRST_FAILURES: dict[str, str] = {}


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a marked test, again after a first failure; True when it was run here."""
    marker = item.get_closest_marker("tried_twice")
    if marker is None or marker.args == (False,):
        return None
    hook, where = item.ihook, item.location
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=where)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    failures = [_cause(report) for report in reports if report.failed]
    if failures and all(cause.startswith(OTHERS_FAULTS) for cause in failures):
        item._initrequest()  # fixtures anew: the test must not see what the first try left
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if not any(report.failed for report in reports):
            _FIRST_FAILURES[item.nodeid] = failures[0]
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=where)
    return True


def _cause(report: pytest.TestReport) -> str:
    """``Error: text`` of a failure, its class without its module."""
    crash = getattr(report.longrepr, "reprcrash", None)
    kind, colon, text = (crash.message if crash else str(report.longrepr)).partition(":")
    return kind.rpartition(".")[2] + colon + text


def report_flaky(terminalreporter: pytest.TerminalReporter) -> None:
    """Name each test that passed at its second try only."""
    if _FIRST_FAILURES:
        terminalreporter.section("FLAKY: passed at the second try only", red=True)
        for nodeid, cause in _FIRST_FAILURES.items():
            terminalreporter.line(f"FLAKY {nodeid} - {cause.splitlines()[0]}")
