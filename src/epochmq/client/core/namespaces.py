"""Namespaces: names of topics and groups as brokers know them, `NAMESPACE%NAME`.

The rules are those of RocketMQ's `NamespaceUtil`, so that its clients with the same namespace meet
ours: the prefix of a retry or dead letter topic stays in front (`%RETRY%NAMESPACE%GROUP`), names of
the system stay as they are, and a name that has the namespace already gets no second one.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from epochmq.base.errors import UsageError
from epochmq.client.core.outgoing import check, check_text
from epochmq.client.core.send_command import REPLY
from epochmq.client.core.send_result import SendResult
from epochmq.model.message import Message, StoredMessage
from epochmq.model.names import DLQ, RETRY, SYSTEM_GROUP_PREFIX, is_system_topic
from epochmq.model.property_names import INSTANCE_ID, MSG_TYPE
from epochmq.model.topic import MessageQueue

SEPARATOR = "%"
_allowed = re.compile(r"[|a-zA-Z0-9_-]+").fullmatch


class Namespace:
    """The namespace of one client: adds it to names, and removes it from them.

    Args:
        name: the namespace; None means no namespace, and all names stay as they are.

    Raises:
        UsageError: `name` is empty or has a forbidden character.
    """

    __slots__ = ("_prefix", "name")

    def __init__(self, name: str | None) -> None:
        if name is not None:
            check_text("namespace", name)
            if _allowed(name) is None:
                raise UsageError(
                    f"the namespace {name!r} is not valid; use one or more of a-z A-Z 0-9 _ - |"
                )
        self.name: str | None = name
        self._prefix = f"{name}{SEPARATOR}"

    def wrap(self, name: str) -> str:
        """Return the topic or group `name` with the namespace."""
        if self.name is None or is_system_topic(name) or name.startswith(SYSTEM_GROUP_PREFIX):
            return name
        head, plain = _split(name)
        return name if plain.startswith(self._prefix) else f"{head}{self._prefix}{plain}"

    def unwrap(self, name: str) -> str:
        """Return the topic or group `name` without the namespace, if it has it."""
        if self.name is None:
            return name
        head, plain = _split(name)
        return head + plain.removeprefix(self._prefix)

    def wrap_queue(self, queue: MessageQueue) -> MessageQueue:
        """Return the queue with the namespace in its topic."""
        if self.name is None:
            return queue
        return MessageQueue(self.wrap(queue.topic), queue.broker_name, queue.queue_id)

    def unwrap_queue(self, queue: MessageQueue) -> MessageQueue:
        """Return the queue without the namespace in its topic."""
        if self.name is None:
            return queue
        return MessageQueue(self.unwrap(queue.topic), queue.broker_name, queue.queue_id)

    def unwrap_queues(self, queues: Iterable[MessageQueue]) -> tuple[MessageQueue, ...]:
        """Return the queues without the namespace, in their order."""
        return tuple(self.unwrap_queue(queue) for queue in queues)

    def wrap_message(self, message: Message) -> Message:
        """Return a message to send with the namespace in its topic and in property `INSTANCE_ID`.

        A reply keeps its topic: its brokers are those of a cluster.

        Raises:
            UsageError: a field of the message has a wrong type, or cannot be sent.
            Refused: the topic is not a valid name (1).
        """
        if self.name is None:
            return message
        check(message)
        if message.properties.get(MSG_TYPE) == REPLY:
            return message
        properties = {**message.properties, INSTANCE_ID: self.name}
        return replace(message, topic=self.wrap(message.topic), properties=properties)

    def unwrap_messages(self, messages: Sequence[StoredMessage]) -> Sequence[StoredMessage]:
        """Return copies of received messages without the namespace; without one, the same
        messages.
        """
        if self.name is None:
            return messages
        return [self.unwrap_message(message) for message in messages]

    def unwrap_message(self, message: StoredMessage) -> StoredMessage:
        """Return a copy of a received message without the namespace; without one, the message."""
        if self.name is None:
            return message
        return msgspec.structs.replace(message, topic=self.unwrap(message.topic))

    def unwrap_result(self, result: SendResult) -> SendResult:
        """Return the result of a send without the namespace in the topic of its queue."""
        if self.name is None:
            return result
        return replace(result, queue=self.unwrap_queue(result.queue))


NO_NAMESPACE = Namespace(None)


def _split(name: str) -> tuple[str, str]:
    """Split a topic into the prefix of retry and dead letter topics, and the rest."""
    for head in (RETRY, DLQ):
        if name.startswith(head):
            return head, name.removeprefix(head)
    return "", name
