"""The way online: an id once in a life, registration, and controllers that come and go."""

from tests.broker.group.dialogue import Dialogue, answer, group

from epochmq.broker.group.broker_identity import Temp
from epochmq.broker.group.membership_effects import (
    DropTemp,
    Question,
    SaveIdentity,
    SaveKnown,
    SaveTemp,
)
from epochmq.wire.codes import ResponseCode as Code
from epochmq.wire.header import decode_header
from epochmq.wire.headers.controller_headers import (
    ApplyBrokerIdHeader,
    RegisterBrokerToControllerHeader,
)

INVALID = Code.CONTROLLER_BROKER_ID_INVALID


def newcomer() -> Dialogue:
    talk = Dialogue.of(broker_id=None)
    talk.find()
    return talk


def test_the_incarnation_is_kept_before_anything_is_asked() -> None:
    talk = Dialogue.of(broker_id=None)
    assert talk.last(SaveKnown).known.incarnation == "inc"


def test_a_new_broker_gets_an_id_writes_it_and_registers() -> None:
    talk = newcomer()
    assert not talk.pending(Question.HEARTBEAT)
    talk.reply(Question.NEXT_ID, nextBrokerId=3)
    temp = talk.last(SaveTemp).temp
    assert temp == Temp(3, f"10.0.0.1:10911;{talk.wall}")
    header = decode_header(ApplyBrokerIdHeader, talk.pending(Question.APPLY_ID)[0].command.ext)
    assert (header.appliedBrokerId, header.registerCheckCode) == (3, temp.check_code)
    assert header.incarnation == "inc"
    talk.reply(Question.APPLY_ID)
    assert talk.last(SaveIdentity) == SaveIdentity(3)
    header2 = decode_header(
        RegisterBrokerToControllerHeader, talk.pending(Question.REGISTER)[0].command.ext
    )
    assert (header2.brokerId, header2.brokerAddress) == (3, "10.0.0.1:10911")
    assert (header2.haAddress, header2.session) == ("10.0.0.1:10912", "s1")


def test_an_id_that_somebody_else_got_first_is_given_up() -> None:
    talk = newcomer()
    talk.reply(Question.NEXT_ID, nextBrokerId=1)
    talk.reply(Question.APPLY_ID, INVALID)
    assert talk.count(DropTemp) == 1
    talk.reply(Question.NEXT_ID, nextBrokerId=2)
    talk.reply(Question.APPLY_ID)
    assert talk.last(SaveIdentity) == SaveIdentity(2)


def test_an_application_without_an_answer_is_the_same_question_again() -> None:
    """Upstream asks for another id then and leaves a ghost behind."""
    talk = newcomer()
    talk.reply(Question.NEXT_ID, nextBrokerId=1)
    first = talk.fail(Question.APPLY_ID)
    talk.now += 500
    talk.tick()
    talk.find("c:2", term=2)
    second = talk.pop(Question.APPLY_ID)
    assert second.address == "c:2"
    assert second.command.ext == first.command.ext
    assert talk.count(SaveTemp) == 1


def test_a_temporary_id_from_before_a_crash_is_applied_for_again() -> None:
    from tests.broker.group.dialogue import options

    from epochmq.broker.group.group_membership import Membership
    from epochmq.broker.group.member_options import LogState

    core = Membership(options(), LogState, temp=Temp(7, "x;1"))
    talk = Dialogue(core)
    talk.take(core.start(0, talk.wall))
    talk.find()
    assert (talk.pending(Question.APPLY_ID)[0].command.ext or {})["appliedBrokerId"] == "7"


def test_a_wiped_controller_is_asked_to_take_the_id_back() -> None:
    """Upstream's broker is refused for ever."""
    talk = Dialogue.of(broker_id=3)
    talk.find()
    talk.reply(Question.REGISTER, Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED)
    talk.now += 200
    talk.tick()
    assert (talk.pending(Question.APPLY_ID)[0].command.ext or {})["appliedBrokerId"] == "3"
    talk.reply(Question.APPLY_ID)
    assert talk.last(SaveIdentity) == SaveIdentity(3)
    talk.reply(Question.REGISTER, **group(6, 2, (2,)))
    assert talk.core.view.epoch == 6


def test_a_refused_own_id_is_kept_and_asked_for_again_slowly() -> None:
    talk = Dialogue.of(broker_id=3)
    talk.find()
    asked = 0
    for now in range(0, 10_000, 20):
        talk.tick(now)
        if talk.pending(Question.REGISTER):
            talk.reply(Question.REGISTER, Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED)
        if talk.pending(Question.APPLY_ID):
            asked += 1
            talk.reply(Question.APPLY_ID, INVALID)
        for ask in talk.pending(Question.METADATA):
            talk.asks.remove(ask)
    assert 3 <= asked <= 12
    assert talk.core.broker_id == 3


def test_a_controller_that_forgot_us_later_is_registered_with_again() -> None:
    """2008 in the poll."""
    talk = Dialogue.of()
    talk.find()
    talk.reply(Question.REGISTER, **group(4, 2, (2,)))
    talk.reply(Question.REPLICA_INFO, Code.CONTROLLER_BROKER_METADATA_NOT_EXIST)
    assert talk.pending(Question.REGISTER)


def test_not_the_leader_means_look_for_it_at_once() -> None:
    """Upstream's brokers wait for their ten seconds' poll."""
    talk = Dialogue.of()
    talk.find()
    talk.now = 60
    talk.reply(Question.REGISTER, Code.CONTROLLER_NOT_LEADER)
    assert len(talk.pending(Question.METADATA, "c:2")) == 2
    talk.reply(Question.METADATA, address="c:2")
    talk.find("c:2", term=2)
    talk.now += 200
    talk.tick()
    assert talk.pending(Question.REGISTER, "c:2")


def test_a_controller_that_contradicts_itself_is_not_asked_in_a_tight_loop() -> None:
    talk = Dialogue.of()
    rounds = 0
    for now in range(2000):
        talk.tick(now)
        while talk.pending(Question.METADATA, "c:1"):
            rounds += 1
            talk.find()
        if talk.pending(Question.REGISTER):
            talk.reply(Question.REGISTER, Code.CONTROLLER_NOT_LEADER)
    assert rounds < 60


def test_a_follower_names_the_leader() -> None:
    talk = Dialogue.of()
    talk.reply(Question.METADATA, address="c:3", isLeader=False, controllerLeaderAddress="c:2")
    assert talk.pending(Question.REGISTER, "c:2")


def test_a_heartbeats_answer_names_the_leader_too() -> None:
    talk = Dialogue.of()
    talk.reply(
        Question.HEARTBEAT, address="c:3", isLeader=False, leaseSupported=True,
        controllerLeaderAddress="c:2",
    )  # fmt: skip
    assert talk.core.finder.active == "c:2"


def test_a_closed_connection_means_look_for_it_at_once() -> None:
    talk = Dialogue.of()
    talk.find()
    before = len(talk.pending(Question.METADATA, "c:2"))
    talk.now = 100
    talk.take(talk.core.closed("c:1", talk.now))
    assert len(talk.pending(Question.METADATA, "c:2")) == before + 1


def test_while_there_is_no_leader_all_are_asked_with_pauses_up_to_a_second() -> None:
    talk = Dialogue.of()
    asked = 0
    for now in range(10_000):
        talk.tick(now)
        while talk.pending(Question.METADATA, "c:1"):
            asked += 1
            talk.reply(Question.METADATA, address="c:1")
    assert 10 <= asked <= 20


def test_a_garbled_answer_says_nothing() -> None:
    talk = Dialogue.of()
    talk.find()
    ask = talk.pop(Question.REGISTER)
    broken = answer(0, masterEpoch="many")
    talk.take(talk.core.answered(ask.tag, broken, talk.now))
    assert talk.core.view.epoch == 0
