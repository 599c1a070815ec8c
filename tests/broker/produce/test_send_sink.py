"""Repeats of sinks: dropped, answered like the first, and never before it."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.become import become
from tests.broker.broker_harness import BrokerHarness, ext, send
from tests.broker.produce.native_pairs import Pair
from tests.broker.serving.test_acks import AckHarness
from tests.tiers import examples

from epochmq.broker.produce.send_sink import SinkGate, furthest
from epochmq.broker.serving.roles import Role
from epochmq.model import batch
from epochmq.model.message import Message
from epochmq.model.message_id import parse_offset_id
from epochmq.native import library
from epochmq.replication.ack_policy import AckStatus
from epochmq.store.draft import PutStatus
from epochmq.store.sink_runs import MessagePosition
from epochmq.store.sinks import SETTLED, SinkMemory
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


def bodies(harness: BrokerHarness, topic: str = "T") -> list[bytes]:
    return [message.body for message in harness.stored(topic)]


def repeats(answer: Command) -> int:
    assert answer.code == ResponseCode.SUCCESS, answer
    return int(ext(answer).get("sinkRepeats", "0"))


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness()
    harness.topic("T", 2)
    return harness


def test_a_repeat_is_dropped_and_answered_with_the_first_ones_place(harness: BrokerHarness) -> None:
    client = harness.client()
    first = client.ask(row(5, queue_id=1))
    again = client.ask(row(5, queue_id=0))
    assert (repeats(first), repeats(again)) == (0, 1)
    for name in ("msgId", "queueId", "queueOffset", "transactionId"):
        assert ext(first)[name] == ext(again)[name]
    assert [len(harness.stored("T", q)) for q in (0, 1)] == [0, 1]
    assert harness.store.sinks.repeats == 1


def test_a_repeat_of_long_ago_is_a_success_too(harness: BrokerHarness) -> None:
    client = harness.client()
    client.ask(row(5))
    harness.store.sync()
    harness.store.forget_confirmed_sinks()
    again = ext(client.ask(row(5, queue_id=1)))
    assert parse_offset_id(again["msgId"])[2] == 0
    assert (again["queueId"], again["queueOffset"], again["sinkRepeats"]) == ("1", "0", "1")
    assert again["transactionId"] == "K0x0x5"
    assert len(bodies(harness)) == 1


def test_numbers_may_come_in_any_order(harness: BrokerHarness) -> None:
    client = harness.client()
    for seq in (3, 1, 3, 2, 1, 0, 2):
        client.ask(row(seq))
    assert bodies(harness) == [b"3", b"1", b"2", b"0"]


def test_batches_parts_and_sinks_are_told_apart(harness: BrokerHarness) -> None:
    harness.topic("U", 1)
    client = harness.client()
    for command in (row(1), row(1, 1), row(1, 1, 1), row(1, topic="U"), row(1, 1, 2)):
        assert repeats(client.ask(command)) == 0
    assert repeats(client.ask(send(b"1", properties=mark(1, sink="other")))) == 0
    assert repeats(client.ask(row(1, 1))) == 1
    harness.store.sync()
    harness.store.forget_confirmed_sinks()
    assert repeats(client.ask(row(7, 0))) == 1  # of a batch before the newest


def test_repeats_within_one_turn(harness: BrokerHarness) -> None:
    one, two = harness.client(), harness.client()
    one.put(row(1), row(2), row(1))
    two.put(row(2), send(b"plain"))
    harness.turn()
    assert [repeats(answer) for answer in one.take()] == [0, 0, 1]
    assert sorted(repeats(answer) for answer in two.take()) == [0, 1]
    assert bodies(harness) == [b"1", b"2", b"plain"]


@pytest.mark.parametrize("binary", [False, True])
def test_a_repeat_waits_as_long_as_its_first_one(binary: bool) -> None:
    harness = AckHarness()
    one, two = harness.client(), harness.client()
    one.put(row(1))
    harness.turn()
    two.put(row(1, binary=binary))
    harness.turn()
    assert (one.take(), two.take()) == ([], [])
    ends = {offset for offset, _, _ in harness.replicas.waiting}
    assert ends == {harness.store.pointers.appended}
    harness.replicas.say(AckStatus.ACKED)
    assert [repeats(answer) for answer in (*one.take(), *two.take())] == [0, 1]
    assert len(bodies(harness)) == 1


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (AckStatus.TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT),
        (AckStatus.NOT_ENOUGH, ResponseCode.SYSTEM_ERROR),
        (AckStatus.FENCED, ResponseCode.SERVICE_NOT_AVAILABLE),
    ],
)
def test_a_repeat_fails_as_its_first_one_does(status: AckStatus, code: int) -> None:
    harness = AckHarness()
    client = harness.client()
    client.put(row(1))
    harness.turn()
    client.put(row(1), rows(1))
    harness.turn()
    harness.replicas.say(status)
    assert harness.codes(client) == [code] * 3


def test_a_repeat_waits_for_the_device() -> None:
    harness = BrokerHarness(flush_disk_type="SYNC_FLUSH")
    harness.topic("T", 1)
    client = harness.client()
    for command in (row(1), row(1), rows(1)):
        client.put(command)
        harness.turn()
    assert client.take() == []
    harness.store.sync()
    assert sorted(repeats(answer) for answer in client.take()) == [0, 1, 1]
    assert bodies(harness) == [b"1"]


def test_only_a_master_says_that_it_is_stored(harness: BrokerHarness) -> None:
    client = harness.client()
    client.ask(row(1))
    client.put(row(1))
    become(harness.node, Role.SLAVE)
    harness.turn()
    assert [answer.code for answer in client.take()] == [ResponseCode.SERVICE_NOT_AVAILABLE]
    become(harness.node, Role.MASTER)
    assert repeats(client.ask(row(1))) == 1


def test_what_was_refused_is_not_remembered(harness: BrokerHarness) -> None:
    client = harness.client()
    client.put(row(1))
    become(harness.node, Role.SLAVE)
    harness.turn()
    become(harness.node, Role.MASTER)
    assert [answer.code for answer in client.take()] == [ResponseCode.SERVICE_NOT_AVAILABLE]
    assert repeats(client.ask(row(1))) == 0


def test_a_first_one_that_the_store_refused_makes_its_repeats_fail(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = harness.client()
    client.put(row(1), row(1))
    full = [PutStatus.SERVICE_NOT_AVAILABLE]
    with monkeypatch.context() as patch:
        patch.setattr(harness.store, "append", lambda drafts, wall: full * len(drafts))
        harness.turn()
    assert {answer.code for answer in client.take()} == {ResponseCode.SERVICE_NOT_AVAILABLE}
    assert repeats(client.ask(row(1))) == 0


def test_batches_store_what_is_new_of_them(harness: BrokerHarness) -> None:
    client = harness.client()
    assert repeats(client.ask(rows(0, 1, 2))) == 0
    answer = client.ask(rows(1, 2, 3, 4, 3))
    assert repeats(answer) == 3
    assert bodies(harness) == [b"0", b"1", b"2", b"3", b"4"]
    ids = [parse_offset_id(text)[2] for text in ext(answer)["msgId"].split(",")]
    stored = [message.offset for message in harness.stored("T")]
    assert ids == [*stored[1:5], 0]
    assert repeats(client.ask(rows(4, 0))) == 2
    assert repeats(client.ask(row(3))) == 1
    assert repeats(client.ask(rows(5))) == 0
    assert len(bodies(harness)) == 6


def test_a_delayed_message_is_remembered_for_its_topic(harness: BrokerHarness) -> None:
    client = harness.client()
    delayed = send(b"1", properties={**mark(1), "DELAY": "3"})
    assert repeats(client.ask(delayed)) == 0
    assert repeats(client.ask(row(1))) == 1
    assert bodies(harness) == []


def test_retries_may_come_as_often_as_they_like(harness: BrokerHarness) -> None:
    harness.node.topics.ensure("%RETRY%G", 1, 6, 0)
    client = harness.client()
    for _ in range(3):
        assert repeats(client.ask(row(1, topic="%RETRY%G"))) == 0
    assert len(bodies(harness, "%RETRY%G")) == 3


def test_the_native_code_leaves_them_to_python() -> None:
    pair = Pair()
    pair.topic("T", queues=2)
    plain = [send(b"p%d" % n, properties={"UNIQ_KEY": f"P{n}"}) for n in range(4)]
    frames = [plain[0], row(1), plain[1], row(1), rows(2, 3), plain[2], rows(3, 4), plain[3]]
    for opaque, command in enumerate(frames, 1):
        command.opaque = opaque
    pair.read(0, b"".join(map(encode_frame, frames)))
    (told, *_) = pair.turn()
    assert [dict(row[3]).get("sinkRepeats") for row in told] == [
        None,
        None,
        None,
        "1",
        None,
        None,
        "1",
        None,
    ]
    for harness in pair.harnesses:
        found = sorted(bodies(harness))
        assert found == sorted([b"p0", b"p1", b"p2", b"p3", b"1", b"2", b"3", b"4"])
    pair.close()


needs_native = pytest.mark.skipif(library.library() is None, reason=library.which())


def numbered(first: int, count: int, number: int = 0, part: int = 0, **more: Any) -> Command:
    """A batch as Spark's sink sends it."""
    body = batch.encode(
        Message("T", b"%d" % seq, properties=mark(seq, number, part))
        for seq in range(first, first + count)
    )
    return send(body, code=Code.SEND_BATCH_MESSAGE, properties="", **more)


@needs_native
def test_the_native_code_takes_a_run_that_is_new(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    took: list[bool] = []
    inner = harness.store.append_packed

    def noted(*given: Any) -> Any:
        placed = inner(*given)
        took.append(placed is not None)
        return placed

    monkeypatch.setattr(harness.store, "append_packed", noted)
    client = harness.client()
    asked = [numbered(0, 1), numbered(1, 9), numbered(10, 5), numbered(12, 5), numbered(10, 7)]
    assert [repeats(client.ask(command)) for command in asked] == [0, 0, 0, 3, 7]
    assert took == [False, True, True, False, False], "the first of a queue is Python's"
    assert bodies(harness) == [b"%d" % n for n in range(17)]
    again = ext(client.ask(row(11)))
    assert parse_offset_id(again["msgId"])[2] == harness.stored("T")[11].offset
    assert (again["queueId"], again["queueOffset"]) == ("0", "11")
    for strange in (rows(20, 22), rows(31, 30)):
        assert repeats(client.ask(strange)) == 0
    assert took[5:] == [False, False], "these are not runs"
    assert repeats(client.ask(numbered(20, 3))) == 2
    harness.store.sync()
    harness.store.forget_confirmed_sinks()
    assert repeats(client.ask(numbered(0, 17))) == 17
    assert repeats(client.ask(numbered(0, 3, number=1))) == 0
    assert repeats(client.ask(numbered(16, 2))) == 1
    assert harness.store.verify().problems == []


@needs_native
@settings(max_examples=examples(60))
@given(st.integers(0, 2**32), st.booleans())
def test_both_drop_the_same(seed: int, sync: bool) -> None:
    """The same requests of a sink, over and over, by the native code and in Python."""
    rng = Random(seed)
    pair = Pair(flush_disk_type="SYNC_FLUSH" if sync else "ASYNC_FLUSH")
    pair.topic("T", queues=2)
    sent: list[tuple[int, ...]] = []
    for _ in range(rng.randrange(3, 12)):
        for _ in range(rng.randrange(1, 4)):
            which = rng.choice(sent) if sent and rng.random() < 0.4 else (
                rng.randrange(60), rng.randrange(1, 12), rng.randrange(2), rng.randrange(2),
                rng.randrange(2),
            )  # fmt: skip
            sent.append(which)
            first, count, number, part, queue_id = which
            if rng.random() < 0.2:
                request = row(first, number, part, queue_id=queue_id)
            else:
                request = numbered(first, count, number, part, queue_id=queue_id)
            pair.put(rng.randrange(3), request)
        pair.turn(rng.choice((1, 100)))
        if rng.random() < 0.3:
            for harness in pair.harnesses:
                harness.store.sync()
                harness.store.forget_confirmed_sinks()
            pair.turn()
    for harness in pair.harnesses:
        harness.store.sync()
        harness.store.forget_confirmed_sinks()
    pair.turn()
    one, other = (harness.store.sinks for harness in pair.harnesses)
    assert one.encode() == other.encode()
    assert one.repeats == other.repeats
    pair.close()


@needs_native
def test_a_repeat_waits_for_a_first_one_that_native_code_took() -> None:
    harness = AckHarness()
    one, two = harness.client(), harness.client()
    one.put(numbered(0, 1))
    harness.turn()
    one.put(numbered(1, 5))
    harness.turn()
    two.put(numbered(1, 5), row(3))
    harness.turn()
    assert (one.take(), two.take()) == ([], [])
    harness.replicas.say(AckStatus.ACKED)
    assert [repeats(answer) for answer in one.take()] == [0, 0]
    assert sorted(repeats(answer) for answer in two.take()) == [1, 5]
    assert [m.body for m in harness.stored("T")] == [b"%d" % n for n in range(6)]


@needs_native
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("__SINK_ID", "s" * 256),
        ("__SINK_BATCH", "-1"),
        ("__SINK_PART", "1" * 19),
        ("__SINK_SEQ", "1x"),
        ("__SINK_SEQ", "\u0661"),
        ("__SINK_PART", ""),
    ],
)
def test_marks_that_are_none_are_the_same_to_both(name: str, value: str) -> None:
    pair = Pair()
    pair.topic("T", queues=1)
    good, bad = mark(1), {**mark(2), name: value}
    for marks in ([good], [bad], [good, bad], [bad, bad], [mark(3), {"UNIQ_KEY": "P"}], [bad]):
        body = batch.encode(Message("T", b"b", properties=each) for each in marks)
        pair.put(0, send(body, code=Code.SEND_BATCH_MESSAGE, properties=""))
        pair.turn()
    one, other = (harness.store.sinks for harness in pair.harnesses)
    for harness in pair.harnesses:
        harness.store.sync()
        harness.store.forget_confirmed_sinks()
    assert one.encode() == other.encode()
    pair.close()


def test_the_furthest_first_one() -> None:
    near, far = MessagePosition(1, 2, 0, 0), MessagePosition(5, 2, 0, 0)
    assert furthest([near, None, SETTLED, far]) is far
    assert furthest([None, SETTLED]) is None
    assert SinkGate(SinkMemory()).pop_repeats() == ([], [])
