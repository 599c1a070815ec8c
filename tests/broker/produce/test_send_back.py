"""A message comes back: retried with rising delay, then a dead letter."""

from typing import Any

import msgspec
import pytest
from tests.broker.become import become
from tests.broker.broker_harness import BrokerHarness, Client, send

from epochmq.broker.internal_writes.internal_writer import WriteOutcome
from epochmq.broker.serving.roles import Role
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.message import StoredMessage
from epochmq.model.names import SCHEDULE_TOPIC
from epochmq.model.properties import decode_bytes
from epochmq.store.draft import Draft
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import FLAG_ONEWAY, Command

RETRY, DEAD = "%RETRY%G", "%DLQ%G"

LIMITS = [(-1, 0), (0, 0), (1, 1), (16, 16), (None, 16)]
"""`maxReconsumeTimes` of the request, and after how many retries a failure is the last."""


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness()
    harness.topic("T")
    return harness


def put(harness: BrokerHarness, **more: Any) -> StoredMessage:
    harness.client().ask(send(properties={"TAGS": "red", "KEYS": "k", "UNIQ_KEY": "U"}, **more))
    return harness.stored("T")[-1]


def back(
    client: Client,
    message: StoredMessage,
    *,
    level: int = 0,
    version: int = 401,
    flag: int = 0,
    **more: object,
) -> Command:
    fields = {"offset": message.offset, "group": "G", "delayLevel": level, **more}
    command = Command(
        Code.CONSUMER_SEND_MSG_BACK,
        ext={name: str(value) for name, value in fields.items()},
        version=version,
        flag=flag,
    )
    return command if flag else client.ask(command)


def test_the_first_retry_waits_in_level_three(harness: BrokerHarness) -> None:
    message = put(harness)
    answer = back(harness.client(), message, originMsgId="ORIGIN")
    assert answer.code == ResponseCode.SUCCESS
    (copy,) = harness.stored(SCHEDULE_TOPIC, 2)
    assert copy.body == message.body
    assert copy.reconsume_times == 1
    assert (copy.born_wall_ms, copy.born_host) == (message.born_wall_ms, message.born_host)
    assert copy.properties["REAL_TOPIC"] == RETRY
    assert copy.properties["RETRY_TOPIC"] == "T"
    assert copy.properties["ORIGIN_MESSAGE_ID"] == message.offset_msg_id
    assert copy.properties["DELAY"] == "3"
    assert copy.properties["WAIT"] == "false"
    assert (copy.tags, copy.keys, copy.uniq_key) == ("red", ("k",), "U")
    config = harness.node.topics.get(RETRY)
    assert config is not None
    assert (config.write_queue_nums, config.perm) == (1, 6)


def test_the_next_retry_waits_longer_and_keeps_its_origin(harness: BrokerHarness) -> None:
    client = harness.client()
    message = put(harness)
    back(client, message)
    harness.clock.step(10_000)
    harness.node.delivery.tick(harness.clock.wall)
    (retry,) = harness.stored(RETRY)
    assert retry.properties["ORIGIN_MESSAGE_ID"] == message.offset_msg_id
    back(client, retry)
    (second,) = harness.stored(SCHEDULE_TOPIC, 3)
    assert second.reconsume_times == 2
    assert second.properties["RETRY_TOPIC"] == "T"
    assert second.properties["ORIGIN_MESSAGE_ID"] == message.offset_msg_id


@pytest.mark.parametrize("level", [5, 18, 40])
def test_the_consumer_may_choose_the_level(harness: BrokerHarness, level: int) -> None:
    back(harness.client(), put(harness), level=level)
    assert len(harness.stored(SCHEDULE_TOPIC, min(level, 18) - 1)) == 1


@pytest.mark.parametrize(
    ("more", "level", "version", "dead"),
    [
        ({"reconsumeTimes": 16}, 0, 401, True),
        ({"reconsumeTimes": 15}, 0, 401, False),
        ({"reconsumeTimes": 0}, -1, 401, True),
        ({"reconsumeTimes": 2}, 0, 401, True),
        ({"reconsumeTimes": 2}, 0, 100, False),
    ],
)
def test_dead_letters(
    harness: BrokerHarness, more: dict[str, int], level: int, version: int, dead: bool
) -> None:
    limit = {"maxReconsumeTimes": 2} if more["reconsumeTimes"] == 2 else {}
    message = put(harness, **more)
    answer = back(harness.client(), message, level=level, version=version, **limit)
    assert answer.code == ResponseCode.SUCCESS
    assert len(harness.stored(DEAD)) == int(dead)
    if dead:
        (letter,) = harness.stored(DEAD)
        assert letter.properties["DELAY"] == "0"
        assert letter.reconsume_times == message.reconsume_times + 1


@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize(("limit", "last"), LIMITS)
def test_below_at_and_above_the_limit(
    harness: BrokerHarness, limit: int | None, last: int, more: int
) -> None:
    tries = max(last + more, 0)
    message = put(harness, reconsumeTimes=tries)
    asked = {} if limit is None else {"maxReconsumeTimes": limit}
    assert back(harness.client(), message, **asked).code == ResponseCode.SUCCESS
    assert len(harness.stored(DEAD)) == int(tries >= last)


def test_the_group_s_limit(harness: BrokerHarness) -> None:
    harness.node.groups.put(SubscriptionGroupConfig("G", retry_max_times=-1), 0)
    back(harness.client(), put(harness))
    assert len(harness.stored(DEAD)) == 1


def test_refusals(harness: BrokerHarness) -> None:
    client = harness.client()
    message = put(harness)
    nowhere = msgspec.structs.replace(message, offset=12345)
    assert back(client, nowhere).code == ResponseCode.SYSTEM_ERROR
    harness.topic(RETRY, queues=1, perm=4)
    assert back(client, message).code == ResponseCode.NO_PERMISSION
    harness.node.groups.put(SubscriptionGroupConfig("G", retry_queue_nums=0), 0)
    assert back(client, message).code == ResponseCode.SUCCESS
    assert harness.stored(SCHEDULE_TOPIC, 2) == []
    harness.node.groups.delete("G", 0)
    harness.node.groups.auto_create = False
    assert back(client, message).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_a_broker_that_may_not_be_written() -> None:
    harness = BrokerHarness(broker_permission=4)
    harness.topic("T")
    message = put(harness)
    assert back(harness.client(), message).code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(("level", "topic"), [(0, RETRY), (-1, DEAD)])
def test_a_slave_that_stands_in_hands_the_copy_over(
    harness: BrokerHarness, level: int, topic: str
) -> None:
    """Upstream's refuses, unless a master is in the same process."""
    message = put(harness)
    end = harness.store.pointers.appended
    given: list[Draft] = []

    class Away:
        def put(self, drafts: Any, origin: Any, wall: int, done: Any) -> None:
            given.extend(drafts)
            done([WriteOutcome.STORED] * len(drafts))

    harness.node.ways_out.use(Away())
    become(harness.node, Role.ACTING_MASTER)
    assert back(harness.client(), message, level=level).code == ResponseCode.SUCCESS
    (copy,) = given
    assert (copy.topic, copy.body, copy.reconsume_times) == (topic, message.body, 1)
    assert decode_bytes(copy.properties)["DELAY"] == ("0" if level else "3")
    assert harness.store.pointers.appended == end  # INV-32
    become(harness.node, Role.SLAVE)
    assert back(harness.client(), message).code == ResponseCode.NO_PERMISSION


def test_the_answer_says_when_the_copy_was_not_kept(harness: BrokerHarness) -> None:
    message = put(harness)
    harness.store.fence("the test says so")
    assert back(harness.client(), message).code == ResponseCode.SYSTEM_ERROR


def test_with_synchronous_flush_the_answer_waits_for_the_sync() -> None:
    harness = BrokerHarness(flush_disk_type="SYNC_FLUSH")
    harness.topic("T")
    client = harness.client()
    client.put(send())
    harness.turn()
    harness.store.sync()
    client.take()
    (message,) = harness.stored("T")
    fields = {"offset": str(message.offset), "group": "G", "delayLevel": "0"}
    client.put(Command(Code.CONSUMER_SEND_MSG_BACK, ext=fields))
    harness.turn()
    assert client.take() == []
    harness.store.sync()
    assert [answer.code for answer in client.take()] == [0]


def test_a_one_way_send_back_is_not_answered(harness: BrokerHarness) -> None:
    client = harness.client()
    client.put(back(client, put(harness), flag=FLAG_ONEWAY))
    harness.turn()
    assert client.take() == []
    assert len(harness.stored(SCHEDULE_TOPIC, 2)) == 1
