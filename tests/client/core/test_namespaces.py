"""Names with a namespace, by the rules of RocketMQ's NamespaceUtil."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.stored import stored

from epochmq.base.errors import UsageError
from epochmq.client.core.namespaces import NO_NAMESPACE, Namespace
from epochmq.model import property_names as names
from epochmq.model.message import Message
from epochmq.model.names import DLQ, RETRY
from epochmq.model.topic import MessageQueue

NS = Namespace("shop")

WRAPPED = [
    ("orders", "shop%orders"),
    ("%RETRY%billing", "%RETRY%shop%billing"),
    ("%DLQ%billing", "%DLQ%shop%billing"),
    ("other%orders", "shop%other%orders"),
    ("shopping", "shop%shopping"),
]
"""Names of an application, and as brokers know them."""

KEPT = ["TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_x", "CID_RMQ_SYS_TRANS"]


@pytest.mark.parametrize(("plain", "wrapped"), WRAPPED)
def test_names_get_the_namespace_once(plain: str, wrapped: str) -> None:
    assert NS.wrap(plain) == wrapped
    assert NS.wrap(wrapped) == wrapped
    assert NS.unwrap(wrapped) == plain


@pytest.mark.parametrize("name", KEPT)
def test_names_of_the_system_stay(name: str) -> None:
    assert NS.wrap(name) == name
    assert NS.unwrap(name) == name


@pytest.mark.parametrize("name", ["other%orders", "orders", "%RETRY%other%g", "xshop%orders"])
def test_names_of_other_namespaces_are_shown_whole(name: str) -> None:
    assert NS.unwrap(name) == name


NAME = st.text("abAB01_-|%", min_size=1, max_size=12)


@given(
    namespace=st.text("ab_-|", min_size=1, max_size=5),
    head=st.sampled_from(["", RETRY, DLQ]),
    name=NAME,
)
def test_a_wrapped_name_is_unwrapped_to_itself(namespace: str, head: str, name: str) -> None:
    there = Namespace(namespace)
    wrapped = there.wrap(head + name)
    assert there.wrap(wrapped) == wrapped
    if not name.startswith((f"{namespace}%", RETRY, DLQ)):
        assert wrapped == f"{head}{namespace}%{name}"
        assert there.unwrap(wrapped) == head + name


@given(name=NAME)
def test_without_a_namespace_names_stay(name: str) -> None:
    assert NO_NAMESPACE.wrap(name) == NO_NAMESPACE.unwrap(name) == name


@pytest.mark.parametrize("name", ["", "a%b", "a b", "ü", "a\n", 7])
def test_a_namespace_that_no_name_can_have_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="namespace"):
        Namespace(name)


def test_a_message_to_send_gets_the_namespace_and_the_callers_object_stays() -> None:
    message = Message("orders", b"x", properties={"a": "b"})
    wrapped = NS.wrap_message(message)
    assert (wrapped.topic, wrapped.properties) == (
        "shop%orders",
        {"a": "b", names.INSTANCE_ID: "shop"},
    )
    assert (message.topic, message.properties) == ("orders", {"a": "b"})
    assert NO_NAMESPACE.wrap_message(message) is message


def test_a_reply_keeps_the_topic_of_its_cluster() -> None:
    reply = Message("DefaultCluster_REPLY_TOPIC", b"x", properties={names.MSG_TYPE: "reply"})
    assert NS.wrap_message(reply) is reply


def test_received_messages_are_copies_without_the_namespace() -> None:
    message = stored(topic="shop%orders")
    (shown,) = NS.unwrap_messages([message])
    assert (shown.topic, shown.body) == ("orders", message.body)
    assert message.topic == "shop%orders"
    assert NO_NAMESPACE.unwrap_message(message) is message


def test_queues_are_wrapped_and_unwrapped() -> None:
    queue = MessageQueue("orders", "b", 3)
    assert NS.wrap_queue(queue) == MessageQueue("shop%orders", "b", 3)
    assert NS.unwrap_queues([NS.wrap_queue(queue)]) == (queue,)
    assert NO_NAMESPACE.wrap_queue(queue) is queue
