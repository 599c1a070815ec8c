"""What a leader sends to one follower, and when."""

from epochmq.raft.follower_progress import AppendPace, FollowerProgress
from epochmq.raft.options import RaftOptions

OPTIONS = RaftOptions(in_flight_max=2, in_flight_bytes_max=100)


def test_a_probe_waits_for_an_answer_or_a_heartbeats() -> None:
    progress = FollowerProgress(5, 0)
    assert progress.may_send(OPTIONS)
    progress.sent(6, 10)
    assert not progress.may_send(OPTIONS)
    progress.answered_heartbeat(OPTIONS)
    assert progress.may_send(OPTIONS)
    assert progress.next == 5


def test_an_accepted_probe_begins_a_stream_with_a_window() -> None:
    progress = FollowerProgress(5, 0)
    assert progress.accepted(6)
    assert (progress.pace, progress.next) == (AppendPace.STREAM, 7)
    progress.sent(8, 10)
    progress.sent(9, 10)
    assert progress.next == 10
    assert not progress.may_send(OPTIONS)
    assert progress.accepted(8)
    assert progress.may_send(OPTIONS)
    progress.sent(12, 95)
    assert not progress.may_send(OPTIONS), "the window is full by bytes"
    progress.answered_heartbeat(OPTIONS)
    assert progress.may_send(OPTIONS), "the oldest may have been lost"


def test_a_refusal_goes_back_to_probing_and_old_ones_count_for_nothing() -> None:
    progress = FollowerProgress(5, 0)
    progress.accepted(6)
    progress.sent(9, 1)
    assert not progress.refused(6, 3), "that is known to be there"
    assert progress.refused(9, 7)
    assert (progress.pace, progress.next) == (AppendPace.PROBE, 8)
    assert not progress.refused(9, 2), "not the probe that is out"
    assert progress.refused(7, 2)
    assert progress.next == 7, "never below what is known to be there"


def test_an_old_answer_that_comes_late_ends_no_probe() -> None:
    progress = FollowerProgress(5, 0)
    progress.accepted(6)
    progress.sent(9, 1)
    assert progress.refused(9, 7)
    progress.sent(9, 1)
    assert not progress.accepted(5), "no news"
    assert (progress.pace, progress.waiting, progress.next) == (AppendPace.PROBE, True, 8)
    assert progress.accepted(7), "it was under way, and is news"
    assert (progress.pace, progress.next) == (AppendPace.STREAM, 8)


def test_an_empty_probe_that_fits_ends_the_probe() -> None:
    progress = FollowerProgress(5, 0)
    progress.accepted(6)
    progress.probe_from(7)
    assert not progress.accepted(6), "no news"
    assert progress.pace is AppendPace.STREAM


def test_a_snapshot_is_awaited() -> None:
    progress = FollowerProgress(5, 0)
    progress.sent_snapshot(20, now=7)
    assert not progress.may_send(OPTIONS)
    assert not progress.refused(4, 3)
    assert progress.accepted(3)
    assert progress.pace is AppendPace.SNAPSHOT
    progress.accepted(20)
    assert (progress.pace, progress.next) == (AppendPace.STREAM, 21)
    assert not progress.accepted(20), "no news"
