"""Batches: all or nothing, in one place, with the properties of both levels."""

from typing import Any

import pytest
from tests.broker.broker_harness import BrokerHarness, ext, pull, send

from epochmq.model import batch
from epochmq.model.message import Message
from epochmq.model.message_id import parse_offset_id
from epochmq.model.record import decode_all
from epochmq.store.draft import PutStatus
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command

BATCH = Code.SEND_BATCH_MESSAGE


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness()
    harness.topic("T")
    return harness


def three() -> bytes:
    keys = ({"UNIQ_KEY": "K0"}, {"UNIQ_KEY": "K1", "size": "9"}, {})
    return batch.encode(
        Message("T", b"m%d" % n, tags="red", properties=dict(more), flag=n)
        for n, more in enumerate(keys)
    )


def command(body: bytes | None = None, **more: Any) -> Command:
    properties = {"WAIT": "true", "UNIQ_KEY": "BATCH"}
    return send(three() if body is None else body, code=BATCH, properties=properties, **more)


@pytest.mark.parametrize("binary", [False, True])
def test_all_messages_are_stored_with_ids_of_their_own(
    harness: BrokerHarness, binary: bool
) -> None:
    answer = harness.client().ask(command(queue_id=1, binary=binary))
    assert answer.code == ResponseCode.SUCCESS
    fields = ext(answer)
    messages = harness.stored("T", 1)
    ids = [parse_offset_id(text)[2] for text in fields.pop("msgId").split(",")]
    assert ids == [message.offset for message in messages]
    assert fields == {
        "queueId": "1",
        "queueOffset": "0",
        "transactionId": "BATCH",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }
    assert [(m.body, m.flag, m.queue_offset) for m in messages] == [
        (b"m0", 0, 0), (b"m1", 1, 1), (b"m2", 2, 2),
    ]  # fmt: skip
    assert [m.uniq_key for m in messages] == ["K0", "K1", "BATCH"]
    assert messages[1].properties["size"] == "9"
    assert all(m.properties["CLUSTER"] == "c" and m.tags == "red" for m in messages)
    pulled = harness.client().ask(pull(queue_id=1, expression="red"))
    assert [m.body for m in decode_all(bytes(pulled.body))] == [b"m0", b"m1", b"m2"]


def test_a_batch_keeps_its_place_behind_earlier_sends(harness: BrokerHarness) -> None:
    client = harness.client()
    client.put(send(b"first"), command(), send(b"last"))
    harness.turn()
    assert [m.body for m in harness.stored("T")] == [b"first", b"m0", b"m1", b"m2", b"last"]
    assert sorted(answer.opaque for answer in client.take()) == [1, 2, 3]


@pytest.mark.parametrize(
    "body", [b"", b"\0\0\0\1", three()[:-1], three() + b"x", batch.encode([Message("T", b"")])]
)
def test_damaged_batches_are_refused_whole(harness: BrokerHarness, body: bytes) -> None:
    answer = harness.client().ask(command(body))
    assert answer.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.MESSAGE_ILLEGAL)
    assert harness.stored("T") == []


def test_retry_topics_take_no_batches(harness: BrokerHarness) -> None:
    harness.topic("%RETRY%G")
    answer = harness.client().ask(command(topic="%RETRY%G"))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL


def test_transactions_take_no_batches(harness: BrokerHarness) -> None:
    assert harness.client().ask(command(sysFlag=4)).code == ResponseCode.MESSAGE_ILLEGAL


def test_a_record_whose_properties_grow_too_long(harness: BrokerHarness) -> None:
    body = batch.encode([Message("T", b"x", properties={"a": "y" * 32_700})])
    assert harness.client().ask(command(body)).code == ResponseCode.MESSAGE_ILLEGAL


def test_the_stores_refusal_is_answered(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = PutStatus.SERVICE_NOT_AVAILABLE
    monkeypatch.setattr(harness.store, "append_batch", lambda drafts, wall: status)
    assert harness.client().ask(command()).code == ResponseCode.SERVICE_NOT_AVAILABLE


@pytest.mark.parametrize(("synced", "code"), [(True, 0), (False, 14)])
def test_with_synchronous_flush_the_answer_waits(synced: bool, code: int) -> None:
    harness = BrokerHarness(flush_disk_type="SYNC_FLUSH")
    harness.topic("T")
    client = harness.client()
    client.put(command())
    harness.turn()
    assert client.take() == []
    if synced:
        harness.store.sync()
    else:
        harness.store.fence("the test says so")
    assert [answer.code for answer in client.take()] == [code]
    assert len(harness.stored("T")) == (3 if synced else 0)


def test_statistics_count_each_message(harness: BrokerHarness) -> None:
    harness.client().ask(command())
    harness.sink.stage.count_sent()
    item = harness.node.stats.find("TOPIC_PUT_NUMS", "T")
    assert item is not None
    assert item.value == harness.node.stats.put.total == 3
