"""Short runs of real faults under load: nothing lost, nothing invented, replicas the same.

INV-10, INV-20, INV-21, INV-22. `EPOCHMQ_CHAOS_COUNT=60` makes each run that long, and
`EPOCHMQ_CHAOS_SEED` another one; `python -m chaos` prints the same on one page.
"""

import asyncio
import os

import pytest
from chaos.__main__ import report, shims_for
from chaos.failover import SETTLE_ACKS, Failover
from chaos.shim import NoCompiler
from tests.compat.peers.group import Group

pytestmark = pytest.mark.process

COUNT = int(os.environ.get("EPOCHMQ_CHAOS_COUNT", "0"))
SEED = int(os.environ.get("EPOCHMQ_CHAOS_SEED", "1"))
LEASE_S = 2.0
SEND_TIMEOUT_S = 1.0
SLACK_S = 5.0
"""For a machine that does other things as well; bench/ measures."""

SCENARIOS = {
    # fault: how often in the landing run, longest time without an acknowledgement
    "kill": (6, SLACK_S),
    "pause": (2, LEASE_S + SEND_TIMEOUT_S + SLACK_S),
    "kill-slave": (2, SEND_TIMEOUT_S + SLACK_S),
    "kill-controller": (2, SLACK_S),
    "kill-controllers": (2, SLACK_S),
    "kill-all": (2, LEASE_S + 2 * SLACK_S),
    "suspend": (2, LEASE_S + SEND_TIMEOUT_S + SLACK_S),
    "slow-sync": (3, SEND_TIMEOUT_S + 2 * SLACK_S),
}


@pytest.mark.parametrize("fault", SCENARIOS)
def test_nothing_acknowledged_is_lost(fault: str) -> None:
    count, bound_s = SCENARIOS[fault]
    made = Group(broker_config={"minInSyncReplicas": 2})
    try:
        shims = shims_for(made, fault)
    except NoCompiler as error:
        pytest.skip(str(error))
    with made as group:
        outcome = asyncio.run(Failover(group, fault, COUNT or count, SEED, shims).run())
    print(report(outcome))
    assert outcome.acked >= 2 * SETTLE_ACKS * (COUNT or count)
    assert outcome.stored >= outcome.acked
    assert outcome.compared_bytes > 0
    assert max(outcome.pauses_ms) <= bound_s * 1000
    if fault == "kill-controller":
        assert outcome.unknown == 0, outcome.errors  # no group notices
