"""Pairs of progress that hold beside that of now, of messages that hang here already."""

import pytest
from tests.broker.delay.test_clock_steps import HOUR_MS, restart
from tests.broker.delay.test_timed_messages import WALL, is_done, timer
from tests.broker.delay.timers import TimerBroker

from epochmq.store.timer.timer_checkpoint import OlderProgress, TimerCheckpoint, encode_older


def test_a_pair_that_goes_further_in_one_of_its_two_holds_beside_ours() -> None:
    """Found by the simulator (world hard, seed 800482): it was dropped (INV-27)."""
    core = timer()
    core.restore(WALL + 4000, 5, 5, 260)
    core.adopt(WALL + 9000, 2, 900, 7)
    assert (core.done_ms, core.covered) == (WALL + 4000, 5)
    assert core.older == [OlderProgress(WALL + 9000, 2, -1, 900, 7)]
    assert core.was_done(1, WALL + 9000)  # it hangs already
    assert not core.was_done(1, WALL + 9001)
    assert not core.was_done(2, WALL + 9000)
    assert core.may_be_done(WALL + 9000)
    assert not core.may_be_done(WALL + 9001)
    core.adopt(WALL + 3000, 7)
    assert is_done(core, 6, WALL + 3000)
    assert not is_done(core, 6, WALL + 3001)
    updates = core.updates
    core.adopt(WALL + 2000, 7)
    assert core.updates == updates  # nothing new
    core.adopt(WALL + 3500, 8)
    assert [row[:2] for row in core.older] == [(WALL + 9000, 2), (WALL + 3500, 8)]
    core.adopt(WALL + 9000, 8)
    assert core.older == []


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("kind", ["of before its clock went back", "covers less"])
def test_what_a_stand_in_delivered_while_it_hung_here_comes_once(kind: str, restarts: bool) -> None:
    """Found by the simulator (world hard, 800665 and 800482): the master had hung it up before
    it died, and delivered it once more from there."""
    broker = TimerBroker()
    broker.put(b"a", b"a", TIMER_DELAY_MS=1500)
    broker.put(b"b", TIMER_DELAY_MS=1700)
    broker.put(b"c", TIMER_DELAY_MS=1500)
    until, end = broker.clock.wall + 1600, broker.store.pointers.appended
    assert broker.run(1000) == []
    core = broker.timer.driver.core
    assert (core.cursor, core.covered) == (4, 4)
    broker.delivers = False
    broker.tick()
    if kind == "covers less":
        word = TimerCheckpoint(until, 104, 3, 3, 0, 0, 0).body()
    else:
        word = TimerCheckpoint(until - HOUR_MS, 104, 3, 3, 0, 0, 0).body()
        word += encode_older([OlderProgress(until, 3, 104, end, -1)])
    broker.timer.progress.adopt(word)
    count = broker.timer.driver.metrics.total
    if restarts:
        broker = restart(broker)
    broker.delivers = True
    assert broker.run(3000) == [b"c", b"b"]
    assert broker.timer.driver.metrics.total == count - 2
