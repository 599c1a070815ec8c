"""Each of Raft's safeguards carries weight: off, the kept seed breaks; on, 150 seeds are clean.

The clean half is played once for all nine, as the histories are the same ones (INV-92).
"""

import pytest
from sim.ablate import RAFT, Ablation, caught
from sim.campaign import Summary
from sim.plan import Plan
from sim.report import report
from sim.seeds import chunks, landing_seeds
from sim.worlds import run


@pytest.mark.parametrize("ablation", RAFT, ids=lambda ablation: ablation.switch)
def test_off_it_is_caught(ablation: Ablation) -> None:
    assert ablation.seed is not None
    outcome = run(ablation.plan(ablation.seed))
    assert outcome.violation is not None
    assert caught(ablation, outcome), report(outcome)
    assert run(ablation.plan(ablation.seed, off=False)).violation is None


@pytest.mark.parametrize("seeds", chunks(landing_seeds("raft", 150), 50))
def test_on_everything_is_clean(seeds: list[int]) -> None:
    summary = Summary()
    for seed in seeds:
        outcome = run(Plan("raft", seed))
        assert outcome.violation is None, "\n" + report(outcome)
        summary.add(outcome)
    assert summary.marks["covered.elected"] > 100
    assert summary.marks["covered.restored"] > 5
    assert summary.marks["covered.read"] > 500
