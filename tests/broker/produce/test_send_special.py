"""Retries, dead letters, delays and timers on their way in."""

import pytest
from tests.broker.broker_harness import BrokerHarness, ext, send
from tests.broker.transaction.around import (
    bodies,
    end,
    half,
    made,
    tick,
)

from epochmq.broker.consume.queue_locks import LIFE_MS
from epochmq.model.group import RETRIES_UNLIMITED, SubscriptionGroupConfig
from epochmq.model.names import HALF_TOPIC, SCHEDULE_TOPIC
from epochmq.model.topic import MessageQueue
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode

RETRY, DEAD = "%RETRY%G", "%DLQ%G"

LIMITS = [(-1, 0), (0, 0), (1, 1), (16, 16), (None, 16)]
"""`maxReconsumeTimes` of the request, and after how many retries a failure is the last."""


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness()
    harness.topic("T")
    return harness


@pytest.mark.parametrize(("level", "queue"), [("1", 0), ("18", 17), ("99", 17)])
def test_a_delayed_message_waits_in_its_levels_queue(
    harness: BrokerHarness, level: str, queue: int
) -> None:
    answer = harness.client().ask(send(queue_id=2, properties={"DELAY": level, "TAGS": "a"}))
    assert answer.code == ResponseCode.SUCCESS
    assert ext(answer)["queueId"] == "2"
    assert harness.stored("T", 2) == []
    (message,) = harness.stored(SCHEDULE_TOPIC, queue)
    assert message.properties["REAL_TOPIC"] == "T"
    assert message.properties["REAL_QID"] == "2"
    assert message.tags == "a"


@pytest.mark.parametrize("level", ["0", "-1", "x", "9" * 5000, ""])
def test_what_is_no_level_is_not_delayed(harness: BrokerHarness, level: str) -> None:
    harness.client().ask(send(properties={"DELAY": level, "a": "b"}))
    assert len(harness.stored("T")) == 1


def test_no_room_for_the_real_topic(harness: BrokerHarness) -> None:
    properties = {"DELAY": "1", "a": "x" * 32_660}
    assert harness.client().ask(send(properties=properties)).code == ResponseCode.MESSAGE_ILLEGAL


@pytest.mark.parametrize(("times", "topic"), [(16, RETRY), (17, DEAD)])
def test_a_retry_is_given_up_when_tried_more_often_than_allowed(
    harness: BrokerHarness, times: int, topic: str
) -> None:
    answer = harness.client().ask(
        send(
            topic=RETRY,
            defaultTopicQueueNums=1,
            reconsumeTimes=times,
            properties={"DELAY": "3", "RETRY_TOPIC": "T"},
        )
    )
    assert answer.code == ResponseCode.SUCCESS
    if topic == RETRY:
        (message,) = harness.stored(SCHEDULE_TOPIC, 2)
        assert message.properties["REAL_TOPIC"] == RETRY
    else:
        (message,) = harness.stored(DEAD)
        assert message.properties["DELAY"] == "-1"
        assert ext(answer)["queueId"] == "0"
    assert message.reconsume_times == times


@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize(("limit", "last"), LIMITS)
def test_below_at_and_above_the_limit(
    harness: BrokerHarness, limit: int | None, last: int, more: int
) -> None:
    """A copy counts the retry to come: one that failed after N retries says N + 1."""
    tries = max(last + more, 0)
    harness.client().ask(
        send(
            topic=RETRY,
            defaultTopicQueueNums=1,
            reconsumeTimes=tries + 1,
            maxReconsumeTimes=limit,
        )
    )
    assert len(harness.stored(DEAD)) == int(tries >= last)


@pytest.mark.parametrize(
    ("lock_ms", "limit", "topic"),
    [
        (0, 2, DEAD),
        (LIFE_MS, 2, DEAD),
        (LIFE_MS + 1, 2, RETRY),
        (None, 2, RETRY),
        (0, None, DEAD),
        (0, RETRIES_UNLIMITED, RETRY),
    ],
)
def test_a_copy_of_a_group_that_holds_a_queue_is_a_dead_letter(
    harness: BrokerHarness, lock_ms: int | None, limit: int | None, topic: str
) -> None:
    """Java's consumers in order send what failed after `limit` retries, and say just that number.

    A letter of an acting master has no limit, and goes where it belongs.
    """
    if lock_ms is not None:
        queue = MessageQueue("T", "b", 0)
        harness.node.locks.lock("G", [queue], "one", harness.clock.now)
        harness.clock.step(lock_ms)
    sent = send(topic=RETRY, defaultTopicQueueNums=1, reconsumeTimes=2, maxReconsumeTimes=limit)
    assert harness.client().ask(sent).code == ResponseCode.SUCCESS
    assert len(harness.stored(topic)) == 1


@pytest.mark.parametrize(("version", "topic"), [(401, DEAD), (100, RETRY)])
def test_the_clients_own_limit_counts_from_3_4_9_on(
    harness: BrokerHarness, version: int, topic: str
) -> None:
    harness.client().ask(
        send(
            topic=RETRY,
            defaultTopicQueueNums=1,
            reconsumeTimes=3,
            maxReconsumeTimes=2,
            version=version,
        )
    )
    assert len(harness.stored(topic)) == 1


def test_a_retry_of_an_unknown_group(harness: BrokerHarness) -> None:
    harness.node.groups.auto_create = False
    answer = harness.client().ask(send(topic=RETRY))
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert RETRY not in harness.node.topics  # what is refused leaves nothing behind
    harness.node.groups.put(SubscriptionGroupConfig("G"), 0)
    assert harness.client().ask(send(topic=RETRY)).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("group", ["", "x" * 200])
def test_a_retry_of_what_can_be_no_group(harness: BrokerHarness, group: str) -> None:
    topics = set(harness.node.topics.table)
    answer = harness.client().ask(send(topic="%RETRY%" + group))
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert set(harness.node.topics.table) == topics


def test_a_retry_topic_is_made_even_without_topic_creation() -> None:
    harness = BrokerHarness(auto_create_topic_enable=False)
    assert harness.client().ask(send(topic=RETRY)).code == ResponseCode.SUCCESS
    config = harness.node.topics.get(RETRY)
    assert config is not None
    assert config.write_queue_nums == 1


@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
def test_timer_messages_are_refused_unless_they_have_a_level(
    harness: BrokerHarness, name: str
) -> None:
    answer = harness.client().ask(send(properties={name: "5000"}))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "accurate timer message is not enabled"
    answer = harness.client().ask(send(properties={name: "5000", "DELAY": "1"}))
    assert answer.code == ResponseCode.SUCCESS
    (message,) = harness.stored(SCHEDULE_TOPIC, 0)
    assert name not in message.properties


def test_a_half_message_that_is_retried_is_an_ordinary_one(harness: BrokerHarness) -> None:
    properties = {"TRAN_MSG": "true", "DELAY": "2"}
    answer = harness.client().ask(send(properties=properties, reconsumeTimes=1, sysFlag=5))
    assert answer.code == ResponseCode.SUCCESS
    (message,) = harness.stored(SCHEDULE_TOPIC, 1)
    assert message.sys_flag == 1


@pytest.mark.parametrize("flag", [4, 12])
def test_a_prepared_message_is_never_taken_in_silence(harness: BrokerHarness, flag: int) -> None:
    """It would be stored where no consumer ever sees it."""
    assert harness.client().ask(send(sysFlag=flag)).code == ResponseCode.NO_PERMISSION


def test_what_clients_may_not_say(harness: BrokerHarness) -> None:
    tick(harness)
    client = harness.client()
    lies = {
        "TRAN_PREPARED_QUEUE_OFFSET": "0", "TRANSACTION_CHECK_TIMES": "99", "DELAY": "3",
        "REAL_TOPIC": "X", "TIMER_DELAY_SEC": "9",
    }  # fmt: skip
    answer = client.ask(half(properties=lies))
    (waiting,) = harness.stored(HALF_TOPIC)
    assert (
        not {"TRAN_PREPARED_QUEUE_OFFSET", "DELAY", "TIMER_DELAY_SEC"} & waiting.properties.keys()
    )
    assert client.ask(end(answer)).code == ResponseCode.SUCCESS
    assert bodies(harness) == [b"hello"]


def test_refused_by_option_and_when_there_is_no_room() -> None:
    harness = made(reject_transaction_message=True)
    assert harness.client().ask(half()).code == ResponseCode.NO_PERMISSION
    harness = made()
    big = {"x": "y" * 32_600}
    assert harness.client().ask(half(properties=big)).code == ResponseCode.MESSAGE_ILLEGAL
    batch = half(code=Code.SEND_BATCH_MESSAGE)
    assert harness.client().ask(batch).code == ResponseCode.MESSAGE_ILLEGAL


def test_too_many_open_ones(harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(harness.node.transactions), "full", True)
    assert harness.client().ask(half()).code == ResponseCode.SYSTEM_BUSY
