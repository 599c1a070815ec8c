"""Verdicts; the frames that lead to them are judged in tests/spark/jvm/test_jobs.py."""

import pytest

from epochmq.base.errors import UsageError
from epochmq.spark.jobs.reconcile_judge import ReconcileVerdict, Rules


def test_rules() -> None:
    for wrong in ({"late_ms": -1}, {"samples": -1}):
        with pytest.raises(UsageError, match="must not be negative"):
            Rules(0, **wrong)


@pytest.mark.parametrize("bad", ["lost", "duplicated", "failed"])
def test_what_makes_a_verdict_unclean(bad: str) -> None:
    assert not ReconcileVerdict({bad: 1}, {}, {}).is_clean
    assert not ReconcileVerdict({}, {"g": {bad: 1}}, {}).is_clean
    assert ReconcileVerdict({}, {"g": {"pending": 1, "unknown": 5}}, {}).is_clean
