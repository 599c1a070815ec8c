"""Whom to tell when, and how."""

from tests.broker.group.dialogue import LEASE_MS, Dialogue, options

from epochmq.broker.group.controller_requests import ControllerRequests
from epochmq.broker.group.lease import TRY_AGAIN_MS, UNANSWERED_MAX, Heartbeats, Lease
from epochmq.broker.group.member_options import LogState
from epochmq.broker.group.membership_effects import Question, SendCommand, Tag, Tell


def beats() -> Heartbeats:
    chosen = options(heartbeat_ms=1000)
    return Heartbeats(chosen, ControllerRequests(chosen, "inc"))


def make(core: Heartbeats, now: int) -> SendCommand | Tell:
    tag = Tag(Question.HEARTBEAT, "c:1", now, now)
    return core.make(tag, 1, LogState(), resign=False)


def test_a_master_that_waits_for_its_lease_asks_often() -> None:
    core = beats()
    assert core.due(("c:1",), 0, Lease(), waiting=True) == ["c:1"]
    assert core.due_at_ms == 100


def test_a_controller_that_showed_itself_to_be_javas_is_told_one_way_and_tried_again() -> None:
    core = beats()
    first = make(core, 0)
    assert isinstance(first, SendCommand)
    core.answered(first.tag, ours=False, now=5)
    assert isinstance(make(core, 10), Tell)
    again = make(core, 5 + TRY_AGAIN_MS)
    assert isinstance(again, SendCommand)
    core.answered(again.tag, ours=True, now=TRY_AGAIN_MS)
    assert isinstance(make(core, TRY_AGAIN_MS + 20), SendCommand)


def test_one_that_answers_nothing_is_not_buried_in_heartbeats() -> None:
    core = beats()
    for now in range(UNANSWERED_MAX):
        make(core, now)
    assert core.due(("c:1", "c:2"), 2000, Lease(), waiting=False) == ["c:2"]
    core.failed(Tag(Question.HEARTBEAT, "c:1", 0, 0))
    assert "c:1" in core.due(("c:1", "c:2"), 4000, Lease(), waiting=False)


def test_heartbeats_come_six_to_a_lease_at_least() -> None:
    talk = Dialogue.of()
    talk.master()
    talk.forget_beats()
    start = talk.now
    beats = 0
    for now in range(start, start + LEASE_MS):
        talk.tick(now)
        beats += len(talk.pending(Question.HEARTBEAT, "c:1"))
        talk.forget_beats()
    assert beats >= 6
