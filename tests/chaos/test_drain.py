"""Comparing replicas' logs byte for byte, and the page that a run prints."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from chaos.__main__ import report
from chaos.drain import compare_logs
from chaos.failover import Outcome
from chaos.figures import percentile

FILE = 1_000


def group(root: Path, *logs: list[bytes]) -> Any:
    """Brokers whose logs have these files."""
    brokers = []
    for number, files in enumerate(logs):
        broker = root / f"broker-{number}"
        folder = broker / "store" / "commitlog"
        folder.mkdir(parents=True)
        for index, content in enumerate(files):
            (folder / f"{index * FILE:020}").write_bytes(content)
        brokers.append(SimpleNamespace(root=broker))
    return SimpleNamespace(brokers=brokers)


def test_equal_logs_are_compared_to_the_end(tmp_path: Path) -> None:
    files = [b"a" * FILE, b"b" * FILE]
    assert compare_logs(group(tmp_path, files, files, files), 1_500) == 1_500


def test_what_lies_beyond_the_end_may_differ(tmp_path: Path) -> None:
    one, other = [b"a" * FILE, b"b" * FILE], [b"a" * FILE, b"b" * 500 + b"c" * 500]
    assert compare_logs(group(tmp_path, one, other), 1_500) == 1_500


@pytest.mark.parametrize("at", [0, 999, 1_000, 1_499])
def test_one_byte_that_differs_is_found(tmp_path: Path, at: int) -> None:
    whole = bytearray(b"a" * 2 * FILE)
    files = [bytes(whole[:FILE]), bytes(whole[FILE:])]
    whole[at] ^= 1
    other = [bytes(whole[:FILE]), bytes(whole[FILE:])]
    with pytest.raises(AssertionError, match="differs"):
        compare_logs(group(tmp_path, files, files, other), 1_500)


def test_a_shorter_log_differs(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="differs"):
        compare_logs(group(tmp_path, [b"a" * FILE], [b"a" * 10]), 11)


def test_percentiles_are_nearest_ranks() -> None:
    ordered = [float(n) for n in range(1, 61)]
    assert percentile(ordered, 50) == 31
    assert percentile(ordered, 99) == 60
    assert percentile([5.0], 99) == 5


def test_the_page_of_a_run() -> None:
    outcome = Outcome("kill", 1, [30.0, 10.0], [900.0, 800.0], 1_000, 2, 1_001, 5_000, 12.0)
    outcome.errors = {"closed": 2}
    page = report(outcome)
    assert "kill: 2 faults in 12 s" in page
    assert "acknowledged 1,000, unknown 2, stored 1,001: 0 lost" in page
    assert "p50 30 ms, p99 30 ms, max 30 ms" in page
    assert "2 x closed" in page
    assert outcome.pauses_ms == [30.0, 10.0]
