"""Shared parts of the request handlers: their type, look-ups that refuse, and JSON answers.

The remarks of refusals are RocketMQ's.
"""

from collections.abc import Callable
from typing import Any

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.state.stamps import CopiedRows, K, changed_rows, count_since
from epochmq.model.data_version import DataVersion
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.topic import MessageQueue, TopicConfig
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.session import Session

NodeHandler = Callable[[BrokerContext, Command, Session, int], Reply | Held]
"""Type of a request handler.

`now` is monotonic ms. A handler raises `Refused` to answer with a code and a remark.
"""


def ok(body: Any) -> Reply:
    """Return a SUCCESS answer with a JSON body."""
    return Reply(body=encode_body(body))


def known_topic(node: BrokerContext, topic: str) -> TopicConfig:
    """Return the topic's configuration; raises `Refused` 17 when there is none."""
    config = node.topics.get(topic)
    if config is None:
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    return config


def known_group(node: BrokerContext, group: str) -> SubscriptionGroupConfig:
    """Return the group's configuration, created when allowed; raises `Refused` 26 without one."""
    config = node.groups.find(group, node.clock.wall_ms())
    if config is None:
        text = f"subscription group [{group}] does not exist"
        raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
    return config


def check_queue_id(queue_id: int) -> None:
    """Raise `Refused` 1 unless the number is a possible queue id."""
    if not 0 <= queue_id < limits.QUEUES_PER_TOPIC_MAX:
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"queueId {queue_id} is not within 0..{limits.QUEUES_PER_TOPIC_MAX - 1}",
        )


def check_unsent(session: Session, size: int) -> None:
    """Raise `Refused` 215 when too many bytes already wait on the connection to add `size`.

    Requests wait while answers of about 1 MiB do (`runtime/connection.py`). This check limits the
    answers to requests that waited together for the device (`cold_requests.py`).
    """
    waiting = session.outbox_bytes
    if waiting + size > limits.BULK_UNSENT_BYTES_MAX:
        raise Refused(
            ResponseCode.FLOW_CONTROL,
            f"{waiting} bytes of answers wait for this connection already; take them before asking"
            " for more",
        )


def queue_of(node: BrokerContext, topic: str, queue_id: int) -> MessageQueue:
    """Return the queue of this broker as clients name it (topic, broker name, queue id)."""
    return MessageQueue(topic, node.options.broker_name, queue_id)


def version_stamp(node: BrokerContext, version: DataVersion) -> str:
    """Return the stamp of a table that has a version for each change (`state/stamps.py`)."""
    steps = f"{version.state_version}.{version.counter}.{version.timestamp}"
    return f"{node.started_wall_ms}.{steps}"


def watched(
    node: BrokerContext,
    command: Command,
    session: Session,
    now: int,
    stamp: Callable[[], str],
    answer: Callable[[], Reply],
) -> Reply | Held:
    """Answer now, or hold the request when a replica waits until the `stamp` of a table changes."""
    kept = node.watchers.hold(
        command,
        now,
        stamp,
        lambda: session.answer(command, answer()),
        session.id,
        count_since(command, node.started_wall_ms),
    )
    return HELD if kept else answer()


def watched_rows(
    node: BrokerContext,
    command: Command,
    session: Session,
    now: int,
    table: CopiedRows[K],
) -> Reply | Held:
    """Answer with the changed rows of `table`, or hold the request until there are some."""

    def answer() -> Reply:
        return changed_rows(command, node.started_wall_ms, table)

    return watched(
        node, command, session, now, lambda: f"{node.started_wall_ms}.{table.changes.count}", answer
    )
