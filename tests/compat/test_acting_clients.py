"""RocketMQ's Java clients through the death and return of a master, as `python -m chaos acting`.

In order, by POP and in transactions; delayed and timed messages with our client. The first living
master that the acting master hands over to is killed as well, with messages on their way there. It
takes most of a minute: both deaths and both returns are waited for, with JVMs that consume.
"""

from __future__ import annotations

import asyncio

from chaos.acting import is_bad, report
from chaos.acting_java import JavaRun
from chaos.acting_run import ALSO, DIES, KINDS, QUICK, STAYS, Plan

from .clients import JAVA_5
from .conftest import had
from .peers.group import OURS
from .peers.pairs import Pairs
from .peers.process import wait_until

PLAN = Plan(before_s=3, dead_s=4, after_s=5, target_dead_s=4)
IN_FLIGHT_MAX = 256
BACK_S = 60


def test_nothing_is_lost_and_no_offset_goes_back() -> None:
    had(JAVA_5.build).close()
    with Pairs(names=(DIES, STAYS), alone={ALSO: OURS}, broker_config=QUICK) as pairs:
        run = JavaRun(pairs, PLAN)
        asyncio.run(run.run())
        said = report(run, "acting")
        assert not is_bad(run), said
        for kind in KINDS:
            assert run.kinds[kind].sent, said
            assert run.kinds[kind].repeated <= IN_FLIGHT_MAX, said
        wait_until(pairs.is_ready, BACK_S, "both masters are back")
