"""A lower minInSyncReplicas is used only once the controllers have recorded it."""

from tests.broker.group.dialogue import Dialogue

from epochmq.broker.group.group_membership import FLOOR_RETRY_MS
from epochmq.broker.group.lease import Floor
from epochmq.broker.group.membership_effects import FloorChanged, Question, SendCommand
from epochmq.wire.codes import ResponseCode as Code
from epochmq.wire.header import decode_header
from epochmq.wire.headers.controller_headers import RegisterBrokerToControllerHeader


def floor_of(ask: SendCommand) -> int | None:
    return decode_header(RegisterBrokerToControllerHeader, ask.command.ext).minInSyncReplicas


def master(floor: int) -> Dialogue:
    talk = Dialogue.of(min_in_sync_replicas=floor)
    talk.master(members=(1, 2))
    assert talk.core.floor.in_use == floor
    return talk


def want(talk: Dialogue, floor: int) -> None:
    talk.take(talk.core.want_floor(floor, talk.now))


def test_a_higher_one_holds_at_once_and_is_recorded_too() -> None:
    talk = master(1)
    want(talk, 3)
    assert talk.core.floor.in_use == 3
    assert floor_of(talk.reply(Question.FLOOR)) == 3
    assert not talk.count(FloorChanged)


def test_a_change_under_way_may_be_recorded_and_holds_until_the_next_is() -> None:
    talk = master(1)
    want(talk, 3)
    want(talk, 2)
    assert talk.core.floor.in_use == 3
    talk.reply(Question.FLOOR)
    assert talk.core.floor.in_use == 3
    talk.tick(talk.now + FLOOR_RETRY_MS)
    assert floor_of(talk.reply(Question.FLOOR)) == 2
    assert talk.core.floor.in_use == 2


def test_an_older_answer_says_nothing() -> None:
    floor = Floor(2)
    floor.wanted = 1
    floor.asked(7)
    floor.wanted = 3
    floor.asked(8)
    floor.recorded(7)
    assert floor.in_use == 3
    floor.wanted = 1
    assert floor.in_use == 3
    assert not floor.is_known
    floor.asked(9)
    floor.recorded(9)
    assert floor.in_use == 1
    assert floor.is_known


def test_controllers_that_were_wiped_are_told_what_is_wanted_now() -> None:
    talk = master(2)
    want(talk, 1)
    talk.reply(Question.FLOOR)
    talk.beat_refused(Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED)
    assert floor_of(talk.pending(Question.REGISTER)[0]) == 1
