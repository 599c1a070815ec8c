"""Repeats of sinks: dropped, answered like the first, and never before it."""

from typing import Any

import pytest
from tests.broker.desk import Desk, ext, send
from tests.broker.handlers.twins import Pair
from tests.broker.test_acks import AckDesk

from epochmq.broker.handlers.send_sink import SinkGate, furthest
from epochmq.broker.roles import Role
from epochmq.model import batch
from epochmq.model.message import Message
from epochmq.model.message_id import parse_offset_id
from epochmq.replication.ack_policy import AckStatus
from epochmq.store.draft import PutStatus
from epochmq.store.sinks import SETTLED, Place, SinkMemory
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, encode_frame


def mark(seq: int, number: int = 0, part: int = 0, sink: str = "q") -> dict[str, str]:
    return {
        "UNIQ_KEY": f"K{number}x{part}x{seq}",
        "__SINK_ID": sink,
        "__SINK_BATCH": str(number),
        "__SINK_PART": str(part),
        "__SINK_SEQ": str(seq),
    }


def row(seq: int, number: int = 0, part: int = 0, **more: Any) -> Command:
    return send(b"%d" % seq, properties=mark(seq, number, part), **more)


def rows(*seqs: int, **more: Any) -> Command:
    body = batch.encode(Message("T", b"%d" % seq, properties=mark(seq)) for seq in seqs)
    properties = {"WAIT": "true", "UNIQ_KEY": "BATCH"}
    return send(body, code=Code.SEND_BATCH_MESSAGE, properties=properties, **more)


def bodies(desk: Desk, topic: str = "T") -> list[bytes]:
    return [message.body for message in desk.stored(topic)]


def repeats(answer: Command) -> int:
    assert answer.code == ResponseCode.SUCCESS, answer
    return int(ext(answer).get("sinkRepeats", "0"))


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.topic("T", 2)
    return desk


def test_a_repeat_is_dropped_and_answered_with_the_first_ones_place(desk: Desk) -> None:
    client = desk.client()
    first = client.ask(row(5, queue_id=1))
    again = client.ask(row(5, queue_id=0))
    assert (repeats(first), repeats(again)) == (0, 1)
    for name in ("msgId", "queueId", "queueOffset", "transactionId"):
        assert ext(first)[name] == ext(again)[name]
    assert [len(desk.stored("T", q)) for q in (0, 1)] == [0, 1]
    assert desk.store.sinks.repeats == 1


def test_a_repeat_of_long_ago_is_a_success_too(desk: Desk) -> None:
    client = desk.client()
    client.ask(row(5))
    desk.store.sync()
    desk.store.settle_sinks()
    again = ext(client.ask(row(5, queue_id=1)))
    assert parse_offset_id(again["msgId"])[2] == 0
    assert (again["queueId"], again["queueOffset"], again["sinkRepeats"]) == ("1", "0", "1")
    assert again["transactionId"] == "K0x0x5"
    assert len(bodies(desk)) == 1


def test_numbers_may_come_in_any_order(desk: Desk) -> None:
    client = desk.client()
    for seq in (3, 1, 3, 2, 1, 0, 2):
        client.ask(row(seq))
    assert bodies(desk) == [b"3", b"1", b"2", b"0"]


def test_batches_parts_and_sinks_are_told_apart(desk: Desk) -> None:
    desk.topic("U", 1)
    client = desk.client()
    for command in (row(1), row(1, 1), row(1, 1, 1), row(1, topic="U"), row(1, 1, 2)):
        assert repeats(client.ask(command)) == 0
    assert repeats(client.ask(send(b"1", properties=mark(1, sink="other")))) == 0
    assert repeats(client.ask(row(1, 1))) == 1
    desk.store.sync()
    desk.store.settle_sinks()
    assert repeats(client.ask(row(7, 0))) == 1  # of a batch before the newest


def test_repeats_within_one_turn(desk: Desk) -> None:
    one, two = desk.client(), desk.client()
    one.put(row(1), row(2), row(1))
    two.put(row(2), send(b"plain"))
    desk.turn()
    assert [repeats(answer) for answer in one.take()] == [0, 0, 1]
    assert sorted(repeats(answer) for answer in two.take()) == [0, 1]
    assert bodies(desk) == [b"1", b"2", b"plain"]


@pytest.mark.parametrize("binary", [False, True])
def test_a_repeat_waits_as_long_as_its_first_one(binary: bool) -> None:
    desk = AckDesk()
    one, two = desk.client(), desk.client()
    one.put(row(1))
    desk.turn()
    two.put(row(1, binary=binary))
    desk.turn()
    assert (one.take(), two.take()) == ([], [])
    ends = {offset for offset, _, _ in desk.replicas.waiting}
    assert ends == {desk.store.pointers.appended}
    desk.replicas.say(AckStatus.ACKED)
    assert [repeats(answer) for answer in (*one.take(), *two.take())] == [0, 1]
    assert len(bodies(desk)) == 1


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (AckStatus.TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT),
        (AckStatus.NOT_ENOUGH, ResponseCode.SYSTEM_ERROR),
        (AckStatus.FENCED, ResponseCode.SERVICE_NOT_AVAILABLE),
    ],
)
def test_a_repeat_fails_as_its_first_one_does(status: AckStatus, code: int) -> None:
    desk = AckDesk()
    client = desk.client()
    client.put(row(1))
    desk.turn()
    client.put(row(1), rows(1))
    desk.turn()
    desk.replicas.say(status)
    assert desk.codes(client) == [code] * 3


def test_a_repeat_waits_for_the_device() -> None:
    desk = Desk(flush_disk_type="SYNC_FLUSH")
    desk.topic("T", 1)
    client = desk.client()
    for command in (row(1), row(1), rows(1)):
        client.put(command)
        desk.turn()
    assert client.take() == []
    desk.store.sync()
    assert sorted(repeats(answer) for answer in client.take()) == [0, 1, 1]
    assert bodies(desk) == [b"1"]


def test_only_a_master_says_that_it_is_stored(desk: Desk) -> None:
    client = desk.client()
    client.ask(row(1))
    client.put(row(1))
    desk.node.role = Role.SLAVE
    desk.turn()
    assert [answer.code for answer in client.take()] == [ResponseCode.SERVICE_NOT_AVAILABLE]
    desk.node.role = Role.MASTER
    assert repeats(client.ask(row(1))) == 1


def test_what_was_refused_is_not_remembered(desk: Desk) -> None:
    client = desk.client()
    client.put(row(1))
    desk.node.role = Role.SLAVE
    desk.turn()
    desk.node.role = Role.MASTER
    assert [answer.code for answer in client.take()] == [ResponseCode.SERVICE_NOT_AVAILABLE]
    assert repeats(client.ask(row(1))) == 0


def test_a_first_one_that_the_store_refused_makes_its_repeats_fail(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = desk.client()
    client.put(row(1), row(1))
    full = [PutStatus.SERVICE_NOT_AVAILABLE]
    with monkeypatch.context() as patch:
        patch.setattr(desk.store, "append", lambda drafts, wall: full * len(drafts))
        desk.turn()
    assert {answer.code for answer in client.take()} == {ResponseCode.SERVICE_NOT_AVAILABLE}
    assert repeats(client.ask(row(1))) == 0


def test_batches_store_what_is_new_of_them(desk: Desk) -> None:
    client = desk.client()
    assert repeats(client.ask(rows(0, 1, 2))) == 0
    answer = client.ask(rows(1, 2, 3, 4, 3))
    assert repeats(answer) == 3
    assert bodies(desk) == [b"0", b"1", b"2", b"3", b"4"]
    ids = [parse_offset_id(text)[2] for text in ext(answer)["msgId"].split(",")]
    stored = [message.offset for message in desk.stored("T")]
    assert ids == [*stored[1:5], 0]
    assert repeats(client.ask(rows(4, 0))) == 2
    assert repeats(client.ask(row(3))) == 1
    assert repeats(client.ask(rows(5))) == 0
    assert len(bodies(desk)) == 6


def test_a_delayed_message_is_remembered_for_its_topic(desk: Desk) -> None:
    client = desk.client()
    delayed = send(b"1", properties={**mark(1), "DELAY": "3"})
    assert repeats(client.ask(delayed)) == 0
    assert repeats(client.ask(row(1))) == 1
    assert bodies(desk) == []


def test_retries_may_come_as_often_as_they_like(desk: Desk) -> None:
    desk.node.topics.ensure("%RETRY%G", 1, 6, 0)
    client = desk.client()
    for _ in range(3):
        assert repeats(client.ask(row(1, topic="%RETRY%G"))) == 0
    assert len(bodies(desk, "%RETRY%G")) == 3


def test_the_twin_leaves_them_to_python() -> None:
    pair = Pair()
    pair.topic("T", queues=2)
    plain = [send(b"p%d" % n, properties={"UNIQ_KEY": f"P{n}"}) for n in range(4)]
    frames = [plain[0], row(1), plain[1], row(1), rows(2, 3), plain[2], rows(3, 4), plain[3]]
    for opaque, command in enumerate(frames, 1):
        command.opaque = opaque
    pair.read(0, b"".join(map(encode_frame, frames)))
    (told, *_) = pair.turn()
    assert [dict(row[3]).get("sinkRepeats") for row in told] == [
        *(None, None, None, "1", None, None, "1", None),
    ]
    for desk in pair.desks:
        found = sorted(bodies(desk))
        assert found == sorted([b"p0", b"p1", b"p2", b"p3", b"1", b"2", b"3", b"4"])
    pair.close()


def test_the_furthest_first_one() -> None:
    near, far = Place(1, 2, 0, 0), Place(5, 2, 0, 0)
    assert furthest([near, None, SETTLED, far]) is far
    assert furthest([None, SETTLED]) is None
    assert SinkGate(SinkMemory()).take_repeats() == ([], [])
