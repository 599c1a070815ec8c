"""Clients come, stay and go."""

import msgspec
import pytest
from tests.broker.fake_node import WALL, FakeNode
from tests.broker.fake_session import FakeSession
from tests.broker.requests.helpers import answer, ext_of

from epochmq.base import limits
from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.consume.client_tables import EXPIRY_MS
from epochmq.broker.requests.client_handlers import expire_clients, session_closed
from epochmq.model.topic import MessageQueue, TopicConfig
from epochmq.wire.codes import OUR_VERSION, VERSION_4_1_0_SNAPSHOT, RequestCode

BEAT = RequestCode.HEART_BEAT


def beat(group: str = "g", topic: str = "T", **more: object) -> dict[str, object]:
    """A heartbeat as a Java client writes it."""
    consumer = {
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
        "groupName": group,
        "messageModel": "CLUSTERING",
        "subscriptionDataSet": [
            {
                "classFilterMode": False,
                "codeSet": [],
                "expressionType": "TAG",
                "subString": "*",
                "subVersion": 5,
                "tagsSet": [],
                "topic": topic,
            }
        ],
        "unitMode": False,
    }
    return {
        "clientID": "10.0.0.9@1",
        "consumerDataSet": [{**consumer, **more}],
        "producerDataSet": [{"groupName": "p"}],
    }


def told(session: FakeSession) -> list[tuple[int, dict[str, str] | None]]:
    return [(command.code, command.ext) for command in session.told]


def test_the_answer_carries_a_real_version() -> None:
    # Clients refuse SQL92 to brokers that answer with an older one.
    assert OUR_VERSION >= VERSION_4_1_0_SNAPSHOT


def test_a_new_consumer() -> None:
    node, session = FakeNode(), FakeSession()
    reply = answer(node, BEAT, None, beat(), session=session, now=7)
    assert reply.code == 0
    assert ext_of(reply) == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    assert session.client_id == "10.0.0.9@1"
    retry = node.topics.get("%RETRY%g")
    assert retry is not None
    assert (retry.write_queue_nums, retry.perm, retry.order) == (1, 6, False)
    assert "g" in node.groups
    member = node.consumers.find("g", "10.0.0.9@1")
    assert member is not None
    assert (member.version, member.seen_at_ms, member.seen_wall_ms) == (401, 7, WALL)
    assert node.producers.members("p")
    assert told(session) == [(40, {"consumerGroup": "g"})]


def test_the_same_again_tells_nobody() -> None:
    node, session = FakeNode(), FakeSession()
    answer(node, BEAT, None, beat(), session=session)
    answer(node, BEAT, None, beat(), session=session)
    assert len(session.told) == 1


def test_ordered_topics_make_ordered_retry_topics() -> None:
    node = FakeNode()
    node.topics.put(TopicConfig(topic_name="T", order=True), WALL)
    answer(node, BEAT, None, beat())
    assert node.topics.is_order("%RETRY%g")


def test_unit_mode_marks_the_retry_topic() -> None:
    node = FakeNode()
    answer(node, BEAT, None, beat(unitMode=True))
    assert node.topics.table["%RETRY%g"].topic_sys_flag == 2


def test_groups_that_cannot_be_made_are_passed_over() -> None:
    node = FakeNode(BrokerOptions(broker_ip1="127.0.0.1", auto_create_subscription_group=False))
    assert answer(node, BEAT, None, beat()).code == 0
    assert node.consumers.group("g") is None
    assert "%RETRY%g" not in node.topics


def test_pull_consumers_can_be_rejected() -> None:
    node = FakeNode(BrokerOptions(broker_ip1="127.0.0.1", reject_pull_consumer_enable=True))
    answer(node, BEAT, None, beat(consumeType="CONSUME_ACTIVELY"))
    assert node.consumers.group("g") is None


def test_notices_can_be_switched_off_for_the_broker_and_for_a_group() -> None:
    node = FakeNode(BrokerOptions(broker_ip1="127.0.0.1", notify_consumer_ids_changed_enable=False))
    session = FakeSession()
    answer(node, BEAT, None, beat(), session=session)
    assert session.told == []
    node = FakeNode()
    config = node.groups.find("g", WALL)
    assert config is not None
    quiet = msgspec.structs.replace(config, notify_consumer_ids_changed_enable=False)
    node.groups.put(quiet, WALL)
    answer(node, BEAT, None, beat(), session=session)
    assert session.told == []


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"clientID":"c","consumerDataSet":3}', b"\x00\xff"]
)
def test_garbage_is_answered(body: bytes) -> None:
    assert answer(FakeNode(), BEAT, None, body).code == 1


def test_overlong_client_ids_are_refused() -> None:
    data = {**beat(), "clientID": "x" * (limits.CLIENT_ID_LENGTH_MAX + 1)}
    assert answer(FakeNode(), BEAT, None, data).code == 1


def test_empty_producer_groups_are_passed_over() -> None:
    node = FakeNode()
    answer(node, BEAT, None, {"clientID": "c", "producerDataSet": [{"groupName": ""}]})
    assert node.producers.groups == {}


def test_v2_heartbeats() -> None:
    node, session = FakeNode(), FakeSession()

    def changed(fingerprint: int, without: bool) -> bool:
        data = {**beat(), "heartbeatFingerprint": fingerprint, "withoutSub": without}
        reply = answer(node, BEAT, None, data, session=session)
        return ext_of(reply)["IS_SUB_CHANGE"] == "true"

    # A broker that restarted knows nothing and has to ask for the subscriptions.
    assert changed(5, without=True)
    assert node.consumers.subscription("g", "T") is None
    assert not changed(5, without=False)
    assert node.consumers.subscription("g", "T") is not None
    assert not changed(5, without=True)
    assert node.consumers.subscription("g", "T") is not None
    assert changed(6, without=True)


def test_filters_are_registered_and_die_with_their_group() -> None:
    node = FakeNode(BrokerOptions(broker_ip1="127.0.0.1", enable_property_filter=True))
    session = FakeSession()
    data = beat(
        subscriptionDataSet=[
            {"topic": "T", "subString": "a > 1", "expressionType": "SQL92", "subVersion": 5}
        ]
    )
    answer(node, BEAT, None, data, session=session)
    found = node.filters.get("T", "g")
    assert found is not None
    expire_clients(node, 0)
    assert found.dead_time == 0
    session_closed(node, session)
    expire_clients(node, 0)
    assert found.dead_time == WALL


def test_a_client_that_unregisters_releases_its_queues() -> None:
    node = FakeNode()
    queue = MessageQueue("T", "b", 0)
    node.locks.lock("g", [queue], "c", 0)
    header = {"clientID": "c", "consumerGroup": "g"}
    session_closed(node, FakeSession())  # only cut off: it may still be at work
    assert node.locks.owner("g", queue, 1) == "c"
    assert answer(node, RequestCode.UNREGISTER_CLIENT, header).code == 0
    assert node.locks.owner("g", queue, 1) is None


def test_unregister() -> None:
    node, one, two = FakeNode(), FakeSession(1), FakeSession(2)
    for session in (one, two):
        answer(node, BEAT, None, beat(), session=session)
    before = len(two.told)
    header = {"clientID": "c", "producerGroup": "p", "consumerGroup": "g"}
    assert answer(node, RequestCode.UNREGISTER_CLIENT, header, session=one).code == 0
    assert len(two.told) == before + 1
    group = node.consumers.group("g")
    assert group is not None
    assert [m.session for m in group.members.values()] == [two]
    assert [m.session for m in node.producers.members("p")] == [two]
    assert answer(node, RequestCode.UNREGISTER_CLIENT, {"clientID": "c"}, session=one).code == 0
    assert answer(node, RequestCode.UNREGISTER_CLIENT, {}, session=one).code == 1
    header = {"clientID": "c", "consumerGroup": "never"}
    assert answer(node, RequestCode.UNREGISTER_CLIENT, header, session=one).code == 0


def test_closed_sessions_leave_and_the_others_are_told() -> None:
    node, one, two = FakeNode(), FakeSession(1), FakeSession(2)
    for session in (one, two):
        answer(node, BEAT, None, beat(), session=session)
    before = len(two.told)
    one.lost()
    session_closed(node, one)
    assert told(two)[before:] == [(40, {"consumerGroup": "g"})]
    assert [m.session for m in node.producers.members("p")] == [two]


def test_nobody_tells_a_closed_session() -> None:
    node, one, two = FakeNode(), FakeSession(1), FakeSession(2)
    answer(node, BEAT, None, beat(), session=one)
    one.lost()
    answer(node, BEAT, None, beat(), session=two)
    assert len(one.told) == 1


def test_silent_clients_are_cut() -> None:
    node, one, two = FakeNode(), FakeSession(1), FakeSession(2)
    answer(node, BEAT, None, beat(), session=one, now=0)
    answer(node, BEAT, None, beat(), session=two, now=100)
    expire_clients(node, EXPIRY_MS + 50)
    assert one.transport.cut_for == "no heartbeat"
    assert two.transport.cut_for is None
    group = node.consumers.group("g")
    assert group is not None
    assert len(group.members) == 1


@pytest.mark.parametrize(
    ("enabled", "kind", "expression", "code"),
    [
        (False, "TAG", "a || b", 0),
        (False, "SQL92", "a > 1", 1),
        (True, "SQL92", "a > 1", 0),
        (True, "SQL92", "a >", 23),
        (True, "REGEX", "a.*", 23),
    ],
)
def test_check_client_config(enabled: bool, kind: str, expression: str, code: int) -> None:
    node = FakeNode(BrokerOptions(broker_ip1="127.0.0.1", enable_property_filter=enabled))
    wanted = {"topic": "T", "subString": expression, "expressionType": kind}
    body = {"clientId": "c", "group": "g", "subscriptionData": wanted}
    assert answer(node, RequestCode.CHECK_CLIENT_CONFIG, None, body).code == code
    assert answer(node, RequestCode.CHECK_CLIENT_CONFIG, None, {"group": "g"}).code == 0


def test_groups_of_one_connection_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GROUPS_PER_SESSION_MAX", 1)
    node, session = FakeNode(), FakeSession()
    answer(node, BEAT, None, beat("g"), session=session)
    assert answer(node, BEAT, None, beat("h"), session=session).code == 0
    assert node.consumers.group("h") is None
