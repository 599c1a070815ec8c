"""A safeguard that is switched off is detected: the stored seed breaks a rule (INV-92).

With all safeguards the same seed is clean, which `make soak` checks. `python -m sim ablate`
searches new seeds for each safeguard, and plays 150 seeds with all safeguards.
"""

import pytest
from sim.kernel.mutants import ACTING_MUTANTS, MUTANTS, REPLICATION_MUTANTS
from sim.kernel.plan import SWITCHES
from sim.tools.ablate import ABLATIONS, Ablation, caught
from sim.tools.report import report
from sim.tools.worlds import run
from tests.tiers import SOAK

HERE = [ablation for ablation in ABLATIONS if ablation.world != "raft"]


@pytest.mark.parametrize("ablation", HERE, ids=lambda a: a.switch)
def test_a_missing_safeguard_is_detected(ablation: Ablation) -> None:
    assert ablation.seed is not None
    outcome = run(ablation.plan(ablation.seed))
    assert caught(ablation, outcome), report(outcome)
    if SOAK:
        clean = run(ablation.plan(ablation.seed, off=False))
        assert clean.violation is None, report(clean)


def test_every_switch_has_its_hunt() -> None:
    assert {ablation.switch for ablation in ABLATIONS} == {
        *SWITCHES,
        *MUTANTS,
        *REPLICATION_MUTANTS,
        *ACTING_MUTANTS,
    }
