"""What many handlers need: their type, and look-ups that refuse in upstream's words."""

from collections.abc import Callable
from typing import Any, Protocol

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.model.data_version import DataVersion
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.topic import MessageQueue, TopicConfig
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.session import Session

NodeHandler = Callable[[BrokerContext, Command, Session, int], Reply | Held]
"""`now` is monotonic ms. A handler raises `Refused` to answer with a code and a remark."""


def ok(body: Any) -> Reply:
    """Success with a JSON body."""
    return Reply(body=encode_body(body))


def known_topic(node: BrokerContext, topic: str) -> TopicConfig:
    """The topic's configuration; `Refused` 17 when there is none."""
    config = node.topics.get(topic)
    if config is None:
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    return config


def known_group(node: BrokerContext, group: str) -> SubscriptionGroupConfig:
    """The group's configuration, auto-created when allowed; `Refused` 26 when there is none."""
    config = node.groups.find(group, node.clock.wall_ms())
    if config is None:
        text = f"subscription group [{group}] does not exist"
        raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
    return config


def check_queue_id(queue_id: int) -> None:
    """`Refused` 1 unless a queue can have this number."""
    if not 0 <= queue_id < limits.QUEUES_PER_TOPIC_MAX:
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"queueId {queue_id} is not within 0..{limits.QUEUES_PER_TOPIC_MAX - 1}",
        )


def check_unsent(session: Session, size: int) -> None:
    """`Refused` 215 when a connection has too many answers waiting to get `size` bytes more.

    A peer that reads slowly is not read from (`runtime/connection.py`), so this bounds what it can
    ask for in one turn.
    """
    waiting = session.outbox_bytes
    if waiting + size > limits.BULK_UNSENT_BYTES_MAX:
        raise Refused(
            ResponseCode.FLOW_CONTROL,
            f"{waiting} bytes of answers wait for this connection already; take them before asking"
            " for more",
        )


def queue_of(node: BrokerContext, topic: str, queue_id: int) -> MessageQueue:
    """One of this broker's queues as clients name it."""
    return MessageQueue(topic, node.options.broker_name, queue_id)


def version_stamp(node: BrokerContext, version: DataVersion) -> str:
    """The stamp of a table that steps its version at every change; see `replica_sync.stamps`."""
    steps = f"{version.state_version}.{version.counter}.{version.timestamp}"
    return f"{node.started_wall_ms}.{steps}"


class Versioned(Protocol):
    """A table that steps its version at every change."""

    @property
    def version(self) -> DataVersion: ...


def watched(
    node: BrokerContext,
    command: Command,
    session: Session,
    now: int,
    table: Versioned,
    answer: Callable[[], Reply],
) -> Reply | Held:
    """The answer, later when a replica wants to wait for news of `table`."""
    kept = node.watchers.hold(
        command,
        now,
        lambda: version_stamp(node, table.version),
        lambda: session.answer(command, answer()),
        session.id,
    )
    return HELD if kept else answer()
