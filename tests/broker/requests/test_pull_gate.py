"""Who may pull: every refusal with its code, in the order of the checks."""

import pytest
from tests.broker.become import become
from tests.broker.broker_harness import BrokerHarness, ext, pull, send

from epochmq.broker.serving.group_position import GroupPosition
from epochmq.broker.serving.roles import Role
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness()
    harness.topic("T")
    return harness


@pytest.mark.parametrize("binary", [False, True])
def test_a_broker_that_may_not_be_read(binary: bool) -> None:
    harness = BrokerHarness(broker_permission=2)
    harness.topic("T")
    answer = harness.client().ask(pull(binary=binary))
    assert answer.code == ResponseCode.NO_PERMISSION
    assert ext(answer) == {"forbiddenType": "1"}
    assert answer.remark == "the broker[127.0.0.1] pulling message is forbidden"


def test_lite_pulls_can_be_off() -> None:
    harness = BrokerHarness(lite_pull_message_enable=False)
    harness.topic("T")
    answer = harness.client().ask(pull(code=Code.LITE_PULL_MESSAGE))
    assert answer.code == ResponseCode.NO_PERMISSION
    assert harness.client().ask(pull()).code == ResponseCode.PULL_NOT_FOUND


@pytest.mark.parametrize(
    ("role", "slave_read", "code"),
    [(Role.FENCED, True, 2), (Role.SLAVE, False, 2), (Role.SLAVE, True, 19)],
)
def test_roles(role: Role, slave_read: bool, code: int) -> None:
    harness = BrokerHarness(slave_read_enable=slave_read)
    harness.topic("T")
    become(harness.node, role)
    answer = harness.client().ask(pull(sys_flag=4 | 1, commit=3))
    assert answer.code == code
    assert harness.node.offsets.get("G", "T", 0) == -1
    if code == 2:
        assert (answer.remark or "").startswith("[REJECTREQUEST]")


def test_groups(harness: BrokerHarness) -> None:
    harness.node.groups.auto_create = False
    answer = harness.client().ask(pull())
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    harness.node.groups.put(SubscriptionGroupConfig("G", consume_enable=False), 0)
    answer = harness.client().ask(pull())
    assert answer.code == ResponseCode.NO_PERMISSION
    assert ext(answer) == {"forbiddenType": "2"}


def test_topics_and_queues(harness: BrokerHarness) -> None:
    harness.topic("W", perm=2)
    client = harness.client()
    assert client.ask(pull(topic="Nope")).code == ResponseCode.TOPIC_NOT_EXIST
    answer = client.ask(pull(topic="W"))
    assert (answer.code, ext(answer)) == (16, {"forbiddenType": "3"})
    assert client.ask(pull(queue_id=4)).code == ResponseCode.SYSTEM_ERROR
    assert client.ask(pull(queue_id=-1)).code == ResponseCode.SYSTEM_ERROR
    assert client.ask(pull(queue_id=4, version=479)).code == ResponseCode.INVALID_PARAMETER


def test_a_group_forbidden_for_a_topic(harness: BrokerHarness) -> None:
    harness.node.groups.set_forbidden("G", "T", 1 << 2, 0)
    answer = harness.client().ask(pull())
    assert (answer.code, ext(answer)) == (16, {"forbiddenType": "5"})


def test_broadcasting_can_be_off(harness: BrokerHarness) -> None:
    from epochmq.broker.consume.client_tables import BROADCASTING, ClientMember, Manner

    client = harness.client()
    harness.node.groups.put(SubscriptionGroupConfig("G", consume_broadcast_enable=False), 0)
    member = ClientMember(client.session, "id", "JAVA", 401, 0)
    harness.node.consumers.heartbeat("G", member, Manner(message_model=BROADCASTING), [])
    answer = client.ask(pull(sys_flag=0))
    assert (answer.code, ext(answer)) == (16, {"forbiddenType": "4"})


def test_expressions(harness: BrokerHarness) -> None:
    client = harness.client()
    assert client.ask(pull(expression=None)).code == ResponseCode.PULL_NOT_FOUND
    assert client.ask(pull(expression=" || ")).code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert client.ask(pull(expression="a > 1", kind="SQL92")).code == ResponseCode.SYSTEM_ERROR


def test_a_slave_friendly_broker_suggests_the_groups_broker() -> None:
    harness = BrokerHarness(slave_read_enable=True)
    harness.topic("T")
    harness.node.groups.put(SubscriptionGroupConfig("G", broker_id=2), 0)
    assert ext(harness.client().ask(pull()))["suggestWhichBrokerId"] == "2"


@pytest.mark.parametrize("binary", [False, True])
def test_the_fast_port_serves_no_pulls(harness: BrokerHarness, binary: bool) -> None:
    answer = harness.client(fast_port=True).ask(pull(binary=binary))
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert answer.remark == " request type 11 not supported"


def test_reads_far_back_are_sent_to_a_replica() -> None:
    """Beyond what counts as memory."""
    harness = BrokerHarness(slave_read_enable=True, memory_window_bytes=1)
    harness.topic("T")
    client = harness.client()
    client.ask(send())
    harness.node.groups.put(SubscriptionGroupConfig("G", which_broker_when_consume_slowly=3), 0)
    assert ext(client.ask(pull()))["suggestWhichBrokerId"] == "3"


def test_a_slave_sends_readers_back_to_a_master_that_lives() -> None:
    harness = BrokerHarness(slave_read_enable=True, memory_window_bytes=1 << 20)
    harness.topic("T")
    client = harness.client()
    client.ask(send())
    become(harness.node, Role.SLAVE)
    harness.node.move_to(GroupPosition(master_address="10.0.0.2:10911"))
    found = client.ask(pull())
    assert (found.code, ext(found)["suggestWhichBrokerId"]) == (0, "0")
    at_end = client.ask(pull(offset=1, sys_flag=4 | 2))
    assert at_end.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert ext(at_end)["suggestWhichBrokerId"] == "0"


def test_long_polling_at_a_fenced_master_is_refused() -> None:
    """S17: nothing is read after the lease."""
    harness = BrokerHarness()
    harness.topic("T")
    client = harness.client()
    client.put(pull(sys_flag=4 | 2))
    harness.turn()
    assert client.take() == []
    harness.node.serving.grant_lease(harness.clock.now)
    harness.sink.pulls.answer_all(harness.clock.now)
    (answer,) = client.take()
    assert answer.code == ResponseCode.SYSTEM_BUSY
