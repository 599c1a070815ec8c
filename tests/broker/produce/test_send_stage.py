"""Sending through the sink: codes, what is stored, what is answered, one append a turn."""

from typing import Any

import pytest
from tests.broker.broker_harness import WALL, BrokerHarness, ext, send

from epochmq.model.message_id import parse_offset_id
from epochmq.store.draft import Draft, PutStatus
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness()
    harness.topic("T")
    return harness


@pytest.mark.parametrize("code", [Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2])
@pytest.mark.parametrize("binary", [False, True])
def test_a_message_is_stored_and_answered(harness: BrokerHarness, code: int, binary: bool) -> None:
    command = send(
        queue_id=2, code=code, binary=binary, flag=7,
        properties={"UNIQ_KEY": "ABC123", "TAGS": "red", "KEYS": "k1 k2", "WAIT": "true"},
    )  # fmt: skip
    answer = harness.client().ask(command)
    assert answer.code == ResponseCode.SUCCESS
    assert answer.binary == binary
    fields = ext(answer)
    (message,) = harness.stored("T", 2)
    assert parse_offset_id(fields.pop("msgId")) == ("127.0.0.1", 10911, message.offset)
    assert fields == {
        "queueId": "2",
        "queueOffset": "0",
        "transactionId": "ABC123",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }
    assert message.body == b"hello"
    assert (message.flag, message.born_wall_ms, message.store_wall_ms) == (7, WALL - 5, WALL)
    assert message.born_host[0] == "10.0.0.9"
    assert message.store_host == ("127.0.0.1", 10911)
    assert message.properties == {
        "UNIQ_KEY": "ABC123",
        "TAGS": "red",
        "KEYS": "k1 k2",
        "WAIT": "true",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "c",
    }


def test_all_sends_of_a_turn_are_one_append(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    append = harness.store.append
    monkeypatch.setattr(
        harness.store,
        "append",
        lambda drafts, wall: runs.append(len(drafts)) or append(drafts, wall),
    )
    clients = [harness.client() for _ in range(3)]
    for number, client in enumerate(clients):
        client.put(*(send(b"%d-%d" % (number, n)) for n in range(4)))
        assert client.take() == []
    harness.turn()
    assert runs == [12]
    for client in clients:
        answers = client.take()
        assert [answer.opaque for answer in answers] == [1, 2, 3, 4]
    assert [m.body for m in harness.stored("T")] == [
        b"%d-%d" % (n, k) for n in range(3) for k in range(4)
    ]
    harness.turn()
    assert runs == [12]


def test_what_a_session_asks_next_sees_what_it_sent(harness: BrokerHarness) -> None:
    client, other = harness.client(), harness.client()
    from epochmq.wire.command import Command

    where = Command(Code.GET_MAX_OFFSET, ext={"topic": "T", "queueId": "0"})
    other.put(send())
    client.put(send(), where, send())
    first, second = client.take()
    assert (first.opaque, second.opaque) == (1, 2)
    assert ext(second)["offset"] == "2"
    harness.turn()
    assert len(client.take()) == 1
    assert len(other.take()) == 1


def test_a_missing_key_is_drawn(harness: BrokerHarness) -> None:
    answer = harness.client().ask(send(properties=""))
    (message,) = harness.stored("T")
    assert ext(answer)["transactionId"] == message.uniq_key
    assert message.uniq_key is not None
    assert message.uniq_key.startswith("7F000001")


def test_a_negative_queue_means_any(harness: BrokerHarness) -> None:
    client = harness.client()
    queues = {ext(client.ask(send(queue_id=-1)))["queueId"] for _ in range(8)}
    assert queues == {"0", "1", "2", "3"}


@pytest.mark.parametrize(("version", "code"), [(401, 1), (413, 1), (479, 29)])
def test_a_queue_outside_the_topic_is_refused(
    harness: BrokerHarness, version: int, code: int
) -> None:
    answer = harness.client().ask(send(queue_id=4, version=version))
    assert answer.code == code
    assert "request queueId[4] is illegal" in (answer.remark or "")


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("bad/../name", ResponseCode.SYSTEM_ERROR),
        ("", ResponseCode.SYSTEM_ERROR),
        ("x" * 200, ResponseCode.SYSTEM_ERROR),
        ("SCHEDULE_TOPIC_XXXX", ResponseCode.NO_PERMISSION),
        ("RMQ_SYS_TRANS_HALF_TOPIC", ResponseCode.NO_PERMISSION),
        ("ReadOnly", ResponseCode.NO_PERMISSION),
    ],
)
def test_a_topic_that_may_not_be_sent_to(harness: BrokerHarness, topic: str, code: int) -> None:
    harness.topic("ReadOnly", perm=4)
    answer = harness.client().ask(send(topic=topic))
    assert answer.code == code
    assert answer.remark


@pytest.mark.parametrize("body", [b"", b"x" * 2000])
def test_an_illegal_body(body: bytes) -> None:
    harness = BrokerHarness(max_message_size=1999)
    harness.topic("T")
    answer = harness.client().ask(send(body))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert harness.stored("T") == []


def test_properties_that_do_not_fit(harness: BrokerHarness) -> None:
    for size in (32700, 60_000):
        answer = harness.client().ask(send(properties={"a": "x" * size}))
        assert answer.code in (ResponseCode.MESSAGE_ILLEGAL, ResponseCode.SYSTEM_ERROR)
    assert harness.stored("T") == []


def test_an_unknown_topic_is_made_after_the_default_topic(harness: BrokerHarness) -> None:
    answer = harness.client().ask(send(topic="New", queue_id=3, defaultTopicQueueNums=6))
    assert answer.code == ResponseCode.SUCCESS
    config = harness.node.topics.get("New")
    assert config is not None
    assert (config.write_queue_nums, config.perm) == (6, 6)
    saved = harness.disk.read_file("config/tables.journal")
    assert saved is not None
    assert b'"New"' in saved


def test_an_unknown_topic_without_creation() -> None:
    harness = BrokerHarness(auto_create_topic_enable=False)
    answer = harness.client().ask(send(topic="New"))
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert answer.remark == "topic[New] not exist, apply first please!"


def test_before_the_accepting_time_nothing_is_taken() -> None:
    harness = BrokerHarness(start_accept_send_request_time_stamp=WALL + 100)
    harness.topic("T")
    client = harness.client()
    assert client.ask(send()).code == ResponseCode.SYSTEM_ERROR
    harness.clock.step(100)
    assert client.ask(send()).code == ResponseCode.SUCCESS


def test_a_broker_without_write_permission_refuses_order_topics() -> None:
    harness = BrokerHarness(broker_permission=4)
    harness.topic("T")
    harness.topic("Ordered", order=True)
    assert harness.client().ask(send(topic="Ordered")).code == ResponseCode.NO_PERMISSION
    assert harness.client().ask(send()).code == ResponseCode.SUCCESS


def test_a_one_way_send_is_stored_and_not_answered(harness: BrokerHarness) -> None:
    client = harness.client()
    client.put(send(oneway=True), send(oneway=True, topic="bad/name"))
    harness.turn()
    assert client.take() == []
    assert len(harness.stored("T")) == 1


def test_transactional_messages_are_refused_by_an_option() -> None:
    harness = BrokerHarness(reject_transaction_message=True)
    harness.topic("T")
    answer = harness.client().ask(send(properties={"TRAN_MSG": "true"}, sysFlag=4))
    assert answer.code == ResponseCode.NO_PERMISSION
    assert "transaction message is forbidden" in (answer.remark or "")


def test_what_the_store_refuses_is_answered_by_its_status(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses = iter(
        [PutStatus.SERVICE_NOT_AVAILABLE, PutStatus.MESSAGE_ILLEGAL, PutStatus.UNKNOWN_ERROR]
    )

    def append(drafts: list[Draft], wall: int) -> list[Any]:
        return [next(statuses) for _ in drafts]

    monkeypatch.setattr(harness.store, "append", append)
    client = harness.client()
    client.put(send(), send(), send(code=Code.SEND_MESSAGE, binary=True))
    harness.turn()
    assert [answer.code for answer in client.take()] == [14, 13, 1]
    assert harness.node.stats.put.total == 0


def test_a_missing_header_field_is_answered(harness: BrokerHarness) -> None:
    command = send()
    assert command.ext is not None
    del command.ext["e"]
    answer = harness.client().ask(command)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "e" in (answer.remark or "")


def test_changed_options_and_topics_are_noticed(harness: BrokerHarness) -> None:
    client = harness.client()
    assert client.ask(send()).code == ResponseCode.SUCCESS
    harness.topic("T", perm=4)
    assert client.ask(send()).code == ResponseCode.NO_PERMISSION
    harness.topic("T", perm=6)
    import dataclasses

    harness.node.adopt_options(dataclasses.replace(harness.options, trace_on=False))
    assert ext(client.ask(send()))["TRACE_ON"] == "false"


def test_statistics_count_what_was_sent(harness: BrokerHarness) -> None:
    client = harness.client()
    for queue_id in (0, 1, 1):
        client.ask(send(queue_id=queue_id))
    harness.sink.stage.count_sent()
    stats = harness.node.stats
    assert stats.put.total == 3
    topic, size = stats.find("TOPIC_PUT_NUMS", "T"), stats.find("TOPIC_PUT_SIZE", "T")
    assert topic is not None
    assert size is not None
    assert topic.value == 3
    assert (
        size.value
        == stats.put_bytes.total
        == sum(message.size for queue_id in (0, 1) for message in harness.stored("T", queue_id))
    )
    queue = stats.find("QUEUE_PUT_NUMS", "T@1")
    assert queue is not None
    assert queue.value == 2
