"""What is asked of controllers, field by field, and what their answers say."""

from tests.broker.group.dialogue import Dialogue, answer, group, options

from epochmq.broker.group.broker_identity import Known, Temp
from epochmq.broker.group.controller_requests import (
    ControllerRequests,
    GroupDescription,
    read_answer,
    read_view,
)
from epochmq.broker.group.member_options import LogState
from epochmq.broker.group.membership_effects import Question, UncleanRecorded
from epochmq.replication.replication_effects import SetProposal
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.controller_bodies import SyncStateSet
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command


def messages(**more: object) -> ControllerRequests:
    return ControllerRequests(options(**more), "inc")


def ext(command: Command) -> dict[str, str]:
    return command.ext or {}


def test_requests_are_those_of_5_3_with_ours_beside() -> None:
    made = messages(learner=True)
    assert made.metadata().code == RequestCode.CONTROLLER_GET_METADATA_INFO
    assert ext(made.next_id()) == {"clusterName": "C", "brokerName": "b"}
    applied = ext(made.apply_id(Temp(3, "a;1")))
    assert applied["appliedBrokerId"] == "3"
    assert applied["registerCheckCode"] == "a;1"
    assert applied["learner"] == "true"
    registered = ext(made.register(3, 17, 1))
    assert registered["brokerId"] == "3"
    assert registered["brokerAddress"] == "10.0.0.1:10911"
    assert registered["invokeTime"] == "17"
    elected = ext(made.elect(3, 17))
    assert (elected["brokerId"], elected["designateElect"]) == ("3", "false")
    # An address in this request would make it one of 5.0's.
    assert ext(made.replica_info()) == {"brokerName": "b", "clusterName": "C"}


def test_a_set_is_compared_and_swapped() -> None:
    command = messages().alter(1, SetProposal(frozenset({3, 1}), 5, 7), 17)
    assert ext(command)["masterEpoch"] == "5"
    assert decode_body(SyncStateSet, command.body) == SyncStateSet([1, 3], 7)


def test_heartbeats() -> None:
    log = LogState(5, 900, 800)
    ours = messages(priority=3, dead_after_ms=7000).heartbeat(2, log, plain=False)
    assert not ours.is_oneway
    fields = ext(ours)
    assert (fields["epoch"], fields["maxOffset"], fields["confirmOffset"]) == ("5", "900", "800")
    assert (fields["electionPriority"], fields["heartbeatTimeoutMills"]) == ("3", "7000")
    assert fields["leaseWanted"] == "true"
    assert "resign" not in fields
    plain = messages().heartbeat(2, log, plain=True)
    assert plain.is_oneway
    assert not {"leaseWanted", "incarnation", "session", "haAddress"} & ext(plain).keys()
    assert ext(messages().heartbeat(2, log, plain=False, resign=True))["resign"] == "true"


def view(command: Command) -> GroupDescription | None:
    return read_view(command, read_answer(command))


def test_an_answer_describes_the_group() -> None:
    told = view(answer(controllerTerm=4, **group(5, 2, (1, 2), 7)))
    assert told == GroupDescription(
        5, 2, "10.0.0.2:10911", "10.0.0.2:10912", 7, frozenset({1, 2}), 4
    )


def test_a_java_answer_leaves_things_out() -> None:
    told = view(answer(masterEpoch=5, masterBrokerId=2, masterAddress="a:1", members=(2,)))
    assert told == GroupDescription(5, 2, "a:1", None, 0, frozenset({2}), 0)
    assert view(answer(masterEpoch=5)) == GroupDescription(5)
    assert view(answer()) is None


def test_the_bodys_epoch_counts_where_the_header_has_none() -> None:
    """GET_REPLICA_INFO."""
    command = answer(masterEpoch=5, masterBrokerId=2)
    command.body = b'{"syncStateSet":[2,1],"syncStateSetEpoch":9}'
    told = view(command)
    assert told is not None
    assert (told.set_epoch, told.members) == (9, frozenset({1, 2}))


def test_garbage_says_nothing() -> None:
    command = answer(masterEpoch=5)
    command.body = b"["
    assert view(command) is None
    assert view(answer(masterEpoch="x")) is None


def test_an_unclean_start_is_told() -> None:
    """KIP-966, S10."""
    talk = Dialogue.of(clean_start=False)
    talk.find()
    assert (talk.pending(Question.REGISTER)[0].command.ext or {})["cleanStart"] == "false"
    assert (talk.pending(Question.HEARTBEAT)[0].command.ext or {})["cleanStart"] == "false"


def test_that_a_start_was_unclean_is_recorded_once_it_is_registered() -> None:
    """S50: no earlier, since the process may end before the controllers hear it."""
    talk = Dialogue.of(known=Known("inc", 1, 2), clean_start=False)
    talk.find()
    assert talk.count(UncleanRecorded) == 0
    talk.reply(Question.REGISTER, **group(3, None, (2,), 6))
    assert talk.count(UncleanRecorded) == 1
    clean = Dialogue.of()
    clean.online()
    assert clean.count(UncleanRecorded) == 0
