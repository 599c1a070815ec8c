"""Each safeguard of Raft is needed: without it, the kept seed breaks a rule (INV-92).

With all safeguards on, the histories of `test_histories_raft.py` are clean.
"""

import pytest
from sim.tools.ablate import RAFT, Ablation, caught
from sim.tools.report import report
from sim.tools.worlds import run


@pytest.mark.parametrize("ablation", RAFT, ids=lambda ablation: ablation.switch)
def test_off_it_is_caught(ablation: Ablation) -> None:
    assert ablation.seed is not None
    outcome = run(ablation.plan(ablation.seed))
    assert outcome.violation is not None
    assert caught(ablation, outcome), report(outcome)
    assert run(ablation.plan(ablation.seed, off=False)).violation is None
