"""What a reconciliation may be asked for; what it finds is in tests/spark/jvm/test_jobs.py."""

from pathlib import Path

import pytest

from epochmq.base.errors import NotFound, UsageError
from epochmq.spark.jobs.reconcile import Reconcile, details_of
from epochmq.spark.jobs.reconcile_judge import ReconcileVerdict


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to compare"):
        Reconcile("n:1", "t")
    with pytest.raises(UsageError, match="not behind"):
        Reconcile("n:1", "t", trace="x", since=5, until=5)
    with pytest.raises(UsageError, match="must not be negative"):
        Reconcile("n:1", "t", trace="x", grace_ms=-1)
    with pytest.raises(NotFound, match="there is no file"):
        Reconcile("n:1", "t", sent=str(tmp_path / "none"))


def test_details_name_the_shares() -> None:
    verdict = ReconcileVerdict(
        {"sent": 2, "lost": 0}, {"g": {"late": 1}}, {"g": {"storeToConsume": [1, 2, 3, 4]}}
    )
    details = details_of(verdict)
    assert details["verdict"] == "clean"
    assert details["latencyMs"] == {
        "g": {"storeToConsume": {"p50": 1, "p90": 2, "p99": 3, "p99.9": 4}}
    }
