"""When a follower was last caught up (RIP-44, lastCaughtUpTimeMs)."""

from epochmq.replication.in_sync import NEVER, FollowerState


def replica() -> FollowerState:
    return FollowerState(lost_at_ms=0, caught_up_at_ms=0)


def test_it_is_caught_up_now_when_it_has_all() -> None:
    follower = replica()
    assert follower.acked(100, 100, now=50)
    assert follower.caught_up_at_ms == 50


def test_it_was_caught_up_when_what_it_has_now_was_all() -> None:
    follower = replica()
    follower.sent(100, now=10)
    follower.sent(200, now=20)  # the mark stays until it is reached, else steady load moves it away
    assert not follower.acked(99, 300, now=30)
    assert follower.caught_up_at_ms == 0
    assert follower.acked(100, 300, now=40)
    assert follower.caught_up_at_ms == 10
    follower.sent(300, now=41)
    assert follower.acked(300, 400, now=60)
    assert follower.caught_up_at_ms == 41


def test_a_mark_reached_late_does_not_put_the_clock_back() -> None:
    follower = replica()
    follower.sent(100, now=10)
    follower.acked(120, 120, now=30)
    follower.sent(130, now=31)
    assert follower.mark_end == 130
    assert follower.caught_up_at_ms == 30


def test_silence_is_no_delay_while_all_is_acknowledged() -> None:
    follower = replica()
    follower.acked(100, 100, now=0)
    assert not follower.behind(100, now=60_000, limit_ms=1000)


def test_idle_without_an_acknowledgement_is_behind() -> None:
    """H11: upstream takes an idle link for caught up whatever was acknowledged."""
    follower = replica()
    assert follower.ack == NEVER
    assert follower.behind(0, now=1001, limit_ms=1000)
    follower.acked(99, 100, now=1)
    assert not follower.behind(100, now=1000, limit_ms=1000)
    assert follower.behind(100, now=1001, limit_ms=1000)
