"""Verdicts; the frames that lead to them are judged in tests/spark/jvm/test_jobs.py."""

import pytest

from epochmq.base.errors import UsageError
from epochmq.spark.jobs.reconcile_judge import Rules, Verdict


def test_rules() -> None:
    for wrong in ({"late_ms": -1}, {"samples": -1}):
        with pytest.raises(UsageError, match="must not be negative"):
            Rules(0, **wrong)


@pytest.mark.parametrize("bad", ["lost", "duplicated", "failed"])
def test_what_makes_a_verdict_unclean(bad: str) -> None:
    assert not Verdict({bad: 1}, {}, {}).is_clean
    assert not Verdict({}, {"g": {bad: 1}}, {}).is_clean
    assert Verdict({}, {"g": {"pending": 1, "unknown": 5}}, {}).is_clean
