"""What the leader remembers of failovers."""

from epochmq.base import limits
from epochmq.controller.controller_state import BrokerGroup, BrokerReplica
from epochmq.controller.timeline import Timeline

KEY = ("c", "g")


def group(epoch: int, master: int | None) -> BrokerGroup:
    made = BrokerGroup(*KEY)
    made.epoch, made.master = epoch, master
    made.replicas = {n: BrokerReplica(n, f"h:{n}") for n in (1, 2)}
    return made


def test_one_failover() -> None:
    timeline = Timeline()
    timeline.detected(KEY, 100, 350)
    timeline.elected(group(5, 2), 360)
    assert timeline.reported(KEY, 2, 4, 370) == 0
    assert timeline.reported(KEY, 1, 5, 371) == 0
    (failover,) = timeline.failovers
    assert failover.applied_ms == -1
    assert timeline.reported(KEY, 2, 5, 380) == 280
    assert timeline.reported(KEY, 2, 5, 999) == 0
    times = (failover.last_heard_ms, failover.detected_ms, failover.elected_ms, failover.applied_ms)
    assert times == (100, 350, 360, 380)
    assert (failover.address, failover.epoch) == ("h:2", 5)


def test_a_first_master_was_missed_since_the_election() -> None:
    timeline = Timeline()
    timeline.detected(KEY, -1, 350)
    timeline.elected(group(1, 2), 360)
    assert timeline.reported(KEY, 2, 1, 380) == 30


def test_bounded_and_forgotten() -> None:
    timeline = Timeline()
    for epoch in range(limits.TIMELINE_MAX + 5):
        timeline.elected(group(epoch, 1), epoch)
    assert len(timeline.failovers) == limits.TIMELINE_MAX
    timeline.elected(group(9, None), 10)
    assert timeline.failovers[-1].epoch == limits.TIMELINE_MAX + 4
    timeline.clear()
    assert not timeline.failovers
