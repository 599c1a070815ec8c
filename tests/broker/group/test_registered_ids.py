"""The controllers asked whose ids are registered."""

import pytest
from tests.broker.group.dialogue import Dialogue

from epochmq.broker.group.broker_identity import PAUSE_MS, RETRY_MS, RegisterQuestion, read_ids
from epochmq.broker.group.membership_effects import Question, ReplicasTold
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command

BODY = (
    b'{"replicasInfoTable":{"b":{"masterBrokerId":1,"masterAddress":"a:1","masterEpoch":2,'
    b'"syncStateSetEpoch":3,"inSyncReplicas":[{"brokerName":"b","brokerId":1,"alive":true}],'
    b'"notInSyncReplicas":[{"brokerName":"b","brokerId":4,"brokerAddress":"a:4","alive":false}]}}}'
)
TOLD = Command(0, body=BODY)


def master() -> Dialogue:
    talk = Dialogue.of()
    talk.master()
    talk.done.clear()
    return talk


def told(talk: Dialogue) -> list[frozenset[int]]:
    return [effect.ids for effect in talk.done if isinstance(effect, ReplicasTold)]


def give(talk: Dialogue, command: Command = TOLD) -> None:
    """The answer to the oldest open question."""
    ask = talk.pop(Question.REPLICAS)
    talk.take(talk.core.answered(ask.tag, command, talk.now))


def test_the_table_has_all_replicas_dead_ones_too() -> None:
    assert read_ids(TOLD, "b") == {1, 4}


@pytest.mark.parametrize(
    "command",
    [
        Command(1, body=BODY),
        Command(0),
        Command(0, body=b"[]"),
        Command(0, body=b'{"inSyncStateTable":{}}'),
        Command(0, body=b'{"replicasInfoTable":{"other":{}}}'),
    ],
)
def test_an_answer_that_does_not_tell(command: Command) -> None:
    assert read_ids(command, "b") is None


def test_it_is_asked_at_once_and_told_once() -> None:
    talk = master()
    talk.take(talk.core.want_replicas(talk.now))
    (ask,) = talk.pending(Question.REPLICAS)
    assert ask.address == "c:1"
    assert ask.command.code == RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
    assert ask.command.ext == {"clusterName": "C"}
    assert decode_body(list[str], ask.command.body) == ["b"]
    talk.tick(talk.now + 10)
    assert len(talk.pending(Question.REPLICAS)) == 1
    give(talk)
    assert told(talk) == [frozenset({1, 4})]


def test_however_many_strangers_call_there_is_a_pause() -> None:
    talk = master()
    talk.take(talk.core.want_replicas(talk.now))
    give(talk)
    talk.take(talk.core.want_replicas(talk.now))
    assert not talk.pending(Question.REPLICAS)
    assert talk.core.next_deadline() <= talk.now + PAUSE_MS
    talk.tick(talk.now + PAUSE_MS)
    give(talk)
    assert told(talk) == [frozenset({1, 4})] * 2


def test_an_answer_to_a_question_of_before_is_no_use() -> None:
    """Who called since may have registered since."""
    talk = master()
    talk.take(talk.core.want_replicas(talk.now))
    talk.take(talk.core.want_replicas(talk.now))
    give(talk)
    assert told(talk) == []
    talk.tick(talk.now + PAUSE_MS)
    give(talk)
    assert told(talk) == [frozenset({1, 4})]


def test_it_is_asked_again_until_somebody_tells() -> None:
    talk = master()
    talk.take(talk.core.want_replicas(talk.now))
    talk.fail(Question.REPLICAS)
    assert not talk.pending(Question.REPLICAS)
    talk.tick(talk.now + RETRY_MS)
    assert not talk.pending(Question.REPLICAS), "it is not known who leads the controllers"
    talk.find()
    give(talk, Command(0, body=b"{}"))
    assert told(talk) == []
    talk.tick(talk.now + RETRY_MS)
    give(talk)
    assert told(talk) == [frozenset({1, 4})]


def test_nothing_is_wanted_at_first() -> None:
    register = RegisterQuestion()
    assert register.next_at_ms is None
    assert not register.is_due(10**9)
    assert register.answered(5, TOLD, "b", 0) is None
