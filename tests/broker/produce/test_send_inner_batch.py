"""Batches kept as one record, in topics whose queue.type is BatchCQ."""

from typing import Any

import pytest
from tests.broker.broker_harness import BrokerHarness, ext, pull, send

from epochmq.model import batch
from epochmq.model.message import Message
from epochmq.model.message_id import parse_offset_id
from epochmq.model.record import decode_all
from epochmq.model.sys_flag import COMPRESSED, INNER_BATCH, NEED_UNWRAP
from epochmq.store.draft import PutStatus
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command

BATCH = Code.SEND_BATCH_MESSAGE
KEYED = {"WAIT": "true", "UNIQ_KEY": "BATCH"}


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness()
    harness.topic("T", attributes={"queue.type": "BatchCQ"})
    harness.topic("Plain")
    return harness


def body(count: int = 3) -> bytes:
    return batch.encode(
        Message("T", b"m%d" % n, properties={"UNIQ_KEY": f"K{n}"}) for n in range(count)
    )


def command(**more: Any) -> Command:
    fields = {"body": body(), "code": BATCH, "properties": KEYED, **more}
    return send(**fields)


def test_one_record_holds_them_all(harness: BrokerHarness) -> None:
    client = harness.client()
    client.ask(command())
    fields = ext(client.ask(command()))
    first, second = harness.stored("T")
    assert parse_offset_id(fields.pop("msgId"))[2] == second.offset
    assert fields == {
        "queueId": "0",
        "queueOffset": "3",
        "transactionId": "BATCH",
        "batchUniqId": "BATCH",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }
    assert second.sys_flag & (NEED_UNWRAP | INNER_BATCH) == NEED_UNWRAP | INNER_BATCH
    assert second.properties["INNER_NUM"] == second.properties["INNER_BASE"] == "3"
    assert second.properties["CLUSTER"] == "c"
    assert harness.store.queue_bounds("T", 0) == (0, 6)
    inner = [m for stored in (first, second) for m in batch.unwrap(stored)]
    assert [(m.queue_offset, m.body, m.uniq_key) for m in inner] == [
        (at, b"m%d" % (at % 3), f"K{at % 3}") for at in range(6)
    ]
    (found,) = harness.store.query_index("T", "BATCH", 1, 0, 1 << 60).records
    assert decode_all(bytes(found)) == [second]


def test_pulled_from_its_middle(harness: BrokerHarness) -> None:
    client = harness.client()
    client.ask(command())
    answer = client.ask(pull(offset=1))
    assert (answer.code, ext(answer)["nextBeginOffset"]) == (ResponseCode.SUCCESS, "3")
    assert [message.queue_offset for message in decode_all(answer.body)] == [0]


def test_without_a_key_of_the_batch_the_messages_are_stored_one_by_one(
    harness: BrokerHarness,
) -> None:
    fields = ext(harness.client().ask(command(properties={"WAIT": "true"})))
    assert "batchUniqId" not in fields
    assert [m.queue_offset for m in harness.stored("T")] == [0, 1, 2]


def test_single_messages_go_in_between(harness: BrokerHarness) -> None:
    client = harness.client()
    client.ask(send())
    client.ask(command())
    assert ext(client.ask(send()))["queueOffset"] == "4"
    assert [m.queue_offset for m in harness.stored("T")] == [0, 1, 4]
    assert harness.store.verify().problems == []


@pytest.mark.parametrize(
    "more",
    [
        {"body": b""},
        {"body": batch.encode([Message("T", b"")])},
        {"sysFlag": COMPRESSED},
        {"sysFlag": 4},
        {"properties": KEYED | {"DELAY": "2"}},
        {"topic": "Plain", "sysFlag": INNER_BATCH},
        {"code": Code.SEND_MESSAGE_V2, "sysFlag": INNER_BATCH},
        {"code": Code.SEND_MESSAGE_V2, "sysFlag": INNER_BATCH, "topic": "Plain"},
        {"code": Code.SEND_MESSAGE_V2, "properties": KEYED | {"INNER_NUM": "9"}},
    ],
)
def test_refused(harness: BrokerHarness, more: dict[str, Any]) -> None:
    assert harness.client().ask(command(**more)).code == ResponseCode.MESSAGE_ILLEGAL
    assert harness.stored("T") == harness.stored("Plain") == []


def test_broken_batches_are_refused(harness: BrokerHarness) -> None:
    assert harness.client().ask(command(body=body()[:-1])).code == ResponseCode.SYSTEM_ERROR


def test_a_failing_store_is_said(harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    full = PutStatus.SERVICE_NOT_AVAILABLE
    monkeypatch.setattr(harness.store, "append", lambda drafts, _wall: [full] * len(drafts))
    assert harness.client().ask(command()).code == ResponseCode.SERVICE_NOT_AVAILABLE


def test_counted_as_messages(harness: BrokerHarness) -> None:
    before = harness.node.stats.put.total
    harness.client().ask(command())
    assert harness.node.stats.put.total == before + 3


def test_a_synced_batch_waits_for_its_sync() -> None:
    harness = BrokerHarness(flush_disk_type="SYNC_FLUSH")
    harness.topic("T", attributes={"queue.type": "BatchCQ"})
    client = harness.client()
    client.put(command())
    harness.turn()
    assert client.take() == []
    harness.store.sync()
    (answer,) = client.take()
    assert answer.code == ResponseCode.SUCCESS


def test_not_sent_back_as_a_whole(harness: BrokerHarness) -> None:
    client = harness.client()
    client.ask(command())
    offset = str(harness.stored("T")[0].offset)
    fields = {"offset": offset, "group": "G", "delayLevel": "0"}
    answer = client.ask(Command(Code.CONSUMER_SEND_MSG_BACK, ext=fields))
    assert (answer.code, str(answer.remark)[:15]) == (1, "MESSAGE_ILLEGAL")
