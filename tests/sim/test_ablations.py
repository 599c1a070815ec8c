"""Each safeguard carries weight: off, the kept seed breaks a rule; on, it is clean (INV-92).

`python -m sim ablate` hunts for all of them anew, and plays 150 seeds with everything on.
"""

import pytest
from sim.kernel.mutants import ACTING_MUTANTS, MUTANTS, REPLICATION_MUTANTS
from sim.kernel.plan import SWITCHES
from sim.tools.ablate import ABLATIONS, Ablation, caught
from sim.tools.report import report
from sim.tools.worlds import run

HERE = [ablation for ablation in ABLATIONS if ablation.world != "raft"]


@pytest.mark.parametrize("ablation", HERE, ids=lambda a: a.switch)
def test_off_it_is_caught_and_on_it_is_clean(ablation: Ablation) -> None:
    assert ablation.seed is not None
    outcome = run(ablation.plan(ablation.seed))
    assert caught(ablation, outcome), report(outcome)
    clean = run(ablation.plan(ablation.seed, off=False))
    assert clean.violation is None, report(clean)


def test_every_switch_has_its_hunt() -> None:
    assert {ablation.switch for ablation in ABLATIONS} == {
        *SWITCHES,
        *MUTANTS,
        *REPLICATION_MUTANTS,
        *ACTING_MUTANTS,
    }
