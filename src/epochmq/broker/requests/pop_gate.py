"""Check whether a pop is allowed, and read its filter and limits from its header."""

from collections.abc import Callable

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.pop.pop_polls import PollKey
from epochmq.broker.pop.pop_records import MESSAGES_MAX
from epochmq.broker.produce.send_topics import invalid_code
from epochmq.broker.requests.common import known_group
from epochmq.broker.requests.pull_gate import make_verifier
from epochmq.model.group import build
from epochmq.model.tags import SUB_ALL
from epochmq.model.topic import ANY_QUEUE, TopicConfig, is_readable
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command
from epochmq.wire.headers.pop_headers import PopHeader
from epochmq.wire.session import Session

ANSWER_EARLY_MS = 50
"""A held pop is answered this many ms before the client's timeout, as in RocketMQ."""


class PopRequest:
    """A pop or a notification as the broker keeps it while it is held (long polling).

    `accept` checks the tags code of a consume queue unit, `verify` checks a record. With None every
    message passes.
    """

    __slots__ = ("accept", "attempt_id", "command", "count", "deadline", "from_end",
                 "invisible_time", "key", "order", "session", "verify")  # fmt: skip

    def __init__(self, session: Session, command: Command, key: PollKey) -> None:
        self.session = session
        self.command = command
        self.key = key
        self.count = MESSAGES_MAX
        self.invisible_time = 0
        self.from_end = False
        """Whether a group without an offset begins at the end of a queue."""
        self.order = False
        self.attempt_id: str | None = None
        self.deadline = 0
        """The request may be held until then (monotonic ms); 0 when it must not be held."""
        self.accept: Callable[[int], bool] | None = None
        self.verify: Callable[[memoryview], bool | None] | None = None

    @property
    def owner(self) -> int:
        return self.session.id

    def note_held(self) -> None:
        """Note for the request's time that it waits for messages."""
        self.command.mark_held()

    @property
    def group(self) -> str:
        return self.key.group

    @property
    def topic(self) -> str:
        return self.key.topic


def admit_pop(
    node: BrokerContext, header: PopHeader, command: Command, session: Session, now: int
) -> PopRequest:
    """Check a POP_MESSAGE header and build the request to execute; raises `Refused`.

    `bornTime` is ignored, because it comes from the client's clock (RocketMQ 5.0 overwrites it with
    the broker's time).
    """
    check_readable(node, "pop")
    illegal = invalid_code(command.version)
    if not 0 < header.maxMsgNums <= MESSAGES_MAX:
        raise Refused(
            illegal,
            f"the broker[{node.options.broker_ip1}] pop message's num is not within"
            f" 1..{MESSAGES_MAX}",
        )
    if not 0 < header.invisibleTime <= limits.POP_INVISIBLE_MS_MAX:
        raise Refused(
            illegal,
            f"invisibleTime {header.invisibleTime} is not within 1..{limits.POP_INVISIBLE_MS_MAX}",
        )
    check_queue(node, header.topic, header.queueId, command, session)
    check_group(node, header.consumerGroup)
    key = PollKey(header.topic, header.consumerGroup, max(header.queueId, ANY_QUEUE))
    request = PopRequest(session, command, key)
    request.count = header.maxMsgNums
    request.invisible_time = header.invisibleTime
    request.from_end = header.initMode != 0
    request.order = bool(header.order)
    request.attempt_id = header.attemptId
    wait_ms = min(header.pollTime, limits.HOLD_MS_MAX) - ANSWER_EARLY_MS
    request.deadline = now + wait_ms if wait_ms > 0 else 0
    _set_filter(node, header, request)
    return request


def check_readable(node: BrokerContext, what: str) -> None:
    """Raise `Refused` 16 when this broker does not permit reads; `what` names the request."""
    if not is_readable(node.options.broker_permission):
        raise Refused(
            ResponseCode.NO_PERMISSION,
            f"the broker[{node.options.broker_ip1}] {what} message is forbidden",
        )


def check_queue(
    node: BrokerContext, name: str, queue_id: int, command: Command, session: Session
) -> TopicConfig:
    """Return the topic's configuration after checking that the queue can be popped.

    A `queue_id` of -1 means all queues. Raises `Refused` 17 for an unknown topic, 16 for a topic
    that is not readable, 1 for a topic of batches (BatchCQ), and for an unknown queue 1 (29 for
    clients from 5.3.1 on).
    """
    topic = node.topics.get(name)
    if topic is None:
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!")
    if not is_readable(topic.perm):
        raise Refused(ResponseCode.NO_PERMISSION, f"the topic[{name}] peeking message is forbidden")
    if node.store.is_batched(name):
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"the topic[{name}] keeps batches as one record (BatchCQ): its messages cannot be"
            " popped one by one; pull them",
        )
    if queue_id >= topic.read_queue_nums:
        raise Refused(
            invalid_code(command.version),
            f"queueId[{queue_id}] is illegal, topic:[{name}] topicConfig.readQueueNums:"
            f"[{topic.read_queue_nums}] consumer:[{session.peer}]",
        )
    return topic


def check_group(node: BrokerContext, name: str) -> None:
    """Raise `Refused` 26 for an unknown group, 16 for a group that may not consume."""
    if not known_group(node, name).consume_enable:
        raise Refused(ResponseCode.NO_PERMISSION, f"subscription group no permission, {name}")


def _set_filter(node: BrokerContext, header: PopHeader, request: PopRequest) -> None:
    """Set the filter of the pop; messages of retry topics are not filtered again."""
    if not header.exp or (header.exp == SUB_ALL and header.expType in ("TAG", None, "")):
        return
    wanted = build(header.topic, header.exp, header.expType or "TAG")
    if not wanted.is_tag:
        matcher = node.filters.compiled(wanted.sub_string, wanted.expression_type)
        request.verify = make_verifier(matcher)
    elif not wanted.wants_all:
        request.accept = wanted.code_set.__contains__
