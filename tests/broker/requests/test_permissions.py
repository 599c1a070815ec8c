"""What each request needs, and the matrix of all request codes and kinds of users."""

import msgspec
import pytest
from tests.broker.auth_harness import ADMIN, INNER, AuthHarness

from epochmq.auth.credentials import Credentials
from epochmq.auth.policies import Action, Need, ResourceType
from epochmq.base.errors import OurBug
from epochmq.broker.requests import permissions
from epochmq.broker.requests import request_routing as routing
from epochmq.broker.requests.permissions import PERMISSIONS, on_topic
from epochmq.broker.requests.request_routing import ROWS, Access
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.command import Command

SERVED = sorted(code for code, row in ROWS.items() if row.access is not Access.ELSEWHERE)
SUB = frozenset({Action.SUB})
PUB = frozenset({Action.PUB})
FIELDS = {
    "topic": "t", "b": "t", "group": "g", "consumerGroup": "g", "groupName": "g",
    "compareGroup": "g", "srcGroup": "g", "destGroup": "g",
}  # fmt: skip
SUBSCRIPTION = {"topic": "t", "subString": "*"}
QUEUE = {"topic": "t", "brokerName": "b", "queueId": 0}
CONSUMER = {"groupName": "g", "subscriptionDataSet": [SUBSCRIPTION]}
BODIES: dict[Code, object] = {
    Code.HEART_BEAT: {"clientID": "c", "consumerDataSet": [CONSUMER]},
    Code.LOCK_BATCH_MQ: {"consumerGroup": "g", "clientId": "c", "mqSet": [QUEUE]},
    Code.UNLOCK_BATCH_MQ: {"consumerGroup": "g", "clientId": "c", "mqSet": [QUEUE]},
    Code.BATCH_ACK_MESSAGE: {"brokerName": "b", "acks": [{"c": "g", "t": "t"}]},
    Code.QUERY_ASSIGNMENT: {"topic": "t", "consumerGroup": "g", "clientId": "c"},
    Code.SET_MESSAGE_REQUEST_MODE: {"topic": "t", "consumerGroup": "g"},
    Code.UPDATE_AND_CREATE_TOPIC_LIST: {"topicConfigList": [{"topicName": "t"}]},
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: {"groupName": "g"},
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: {"groupConfigList": [{"groupName": "g"}]},
}
FREE = {Code.CHECK_CLIENT_CONFIG, Code.MASTER_STATE, Code.AUTH_CHALLENGE}
"""Any user may send these: they read and change nothing of a topic or group."""
SUPER = {
    Code.LOG_READ, Code.GET_ALL_ACCOUNTS, Code.EXCHANGE_BROKER_HA_INFO,
    Code.NOTIFY_BROKER_ROLE_CHANGED, Code.NOTIFY_MIN_BROKER_ID_CHANGE,
}  # fmt: skip
USER = Credentials("user", "user-secret")
NO_PERMISSION = 16


def of(code: Code) -> Command:
    body = BODIES.get(code)
    data = b"" if body is None else msgspec.json.encode(body)
    return Command(code, ext=dict(FIELDS), body=data)


def needs(code: Code) -> list[Need]:
    return PERMISSIONS[code]("c", of(code))


def ask(harness: AuthHarness, code: Code, user: Credentials | None) -> int | None:
    """Return the code of the answer; None if the request is held or one-way."""
    client, command = harness.client(), of(code)
    if user is not None:
        user.sign(command)
    client.put(command)
    harness.turn()
    answers = client.take()
    return answers[0].code if answers else None


# Table ---------------------------------------------------------------------------------------


def test_a_served_code_without_a_permission_stops_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {
        code: found for code, found in PERMISSIONS.items() if code is not Code.LITE_PULL_MESSAGE
    }
    monkeypatch.setattr(routing, "PERMISSIONS", known)
    with pytest.raises(OurBug, match="row and permission do not agree: LITE_PULL_MESSAGE"):
        routing.check_complete(list(map(int, SERVED)))


@pytest.mark.parametrize("code", SERVED, ids=lambda code: code.name)
def test_every_request_needs_something_of_its_topic_group_or_cluster(code: Code) -> None:
    found = needs(code)
    assert bool(found) is (code not in FREE)
    for need in found:
        assert (need.type, need.name) in {
            (ResourceType.TOPIC, "t"), (ResourceType.GROUP, "g"), (ResourceType.CLUSTER, "c"),
            (ResourceType.TOPIC, "*"),
        }  # fmt: skip
        assert bool(need.actions) is (code not in SUPER)


def test_everyone_may_ask_for_a_challenge() -> None:
    for user in (None, Credentials("nobody", "wrong"), INNER):
        assert ask(AuthHarness(), Code.AUTH_CHALLENGE, user) == 0


SIGNED = [code for code in SERVED if code is not Code.AUTH_CHALLENGE]


@pytest.mark.parametrize("code", SIGNED, ids=lambda code: code.name)
def test_every_request_by_every_kind_of_user(code: Code) -> None:
    """No user, wrong signature, disabled, no policy, the exact policy, a neighbour's, Super."""
    harness = AuthHarness()
    harness.put_user(USER)
    assert ask(harness, code, None) == NO_PERMISSION
    assert ask(harness, code, Credentials("user", "wrong")) == NO_PERMISSION
    assert ask(harness, code, Credentials("nobody", "wrong")) == NO_PERMISSION
    refused = NO_PERMISSION if code not in FREE else None
    assert refused is None or ask(harness, code, USER) == NO_PERMISSION
    exact = [(f"{need.type}:{need.name}", ",".join(need.actions)) for need in needs(code)]
    if code in SUPER:
        harness.allow(USER, ("*", "All"))
        assert ask(harness, code, USER) == NO_PERMISSION
    else:
        beside = [(resource.replace("*", "") + "x", actions) for resource, actions in exact]
        if beside:
            harness.allow(USER, *beside)
            assert ask(harness, code, USER) == NO_PERMISSION
            harness.allow(USER, *exact)
        assert ask(harness, code, USER) != NO_PERMISSION
        if exact:
            harness.allow(USER, *exact, decision="Deny")
            assert ask(harness, code, USER) == NO_PERMISSION
    assert ask(harness, code, INNER) != NO_PERMISSION
    harness.ask(Command(Code.AUTH_DELETE_USER, ext={"username": "user"}), ADMIN)
    assert ask(harness, code, USER) == NO_PERMISSION


def test_each_of_several_needs_counts() -> None:
    """Where a request names a topic and a group, one of both is not enough."""
    for code in (Code.PULL_MESSAGE, Code.POP_MESSAGE, Code.HEART_BEAT, Code.BATCH_ACK_MESSAGE):
        harness = AuthHarness()
        harness.put_user(USER)
        for resource in ("Topic:t", "Group:g"):
            harness.allow(USER, (resource, "Sub"))
            last = ask(harness, code, USER)
            harness.ask(Command(Code.AUTH_DELETE_ACL, ext={"subject": "User:user"}))
            assert last == NO_PERMISSION, (code, resource)


# Topics that belong to groups ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "group", "need"),
    [
        ("t", "g", Need(ResourceType.TOPIC, "t", SUB)),
        ("%RETRY%g", "g", Need(ResourceType.GROUP, "g", SUB)),
        ("%RETRY%other", "g", Need(ResourceType.GROUP, "other", SUB)),
        ("%DLQ%other", "g", Need(ResourceType.GROUP, "other", SUB)),
        ("%RETRY%g_t", "g", Need(ResourceType.TOPIC, "t", SUB)),
        ("%RETRY%g+t", "g", Need(ResourceType.TOPIC, "t", SUB)),
        ("%RETRY%g_t", "", Need(ResourceType.GROUP, "g_t", SUB)),
    ],
)
def test_retry_and_dead_letter_topics(topic: str, group: str, need: Need) -> None:
    assert on_topic(topic, SUB, group) == need


def test_a_send_to_a_retry_topic_needs_the_group() -> None:
    assert on_topic("%RETRY%g", PUB) == Need(ResourceType.GROUP, "g", SUB)


def test_old_clients_name_no_topic_at_the_end_of_a_transaction() -> None:
    assert permissions.PERMISSIONS[Code.END_TRANSACTION]("c", Command(37, ext={})) == []
