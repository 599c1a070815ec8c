"""Copies of failed messages for the retry topic, back-off, and detection of silent brokers.

RocketMQ's clients send such a copy when a broker cannot take a message back by its offset, for
example one message of a batch that is stored as a single record.
"""

from epochmq.base.backoff import backoff_ms
from epochmq.base.ports import Rng
from epochmq.client.core.outgoing import Outgoing
from epochmq.model import property_names as names
from epochmq.model.group import RETRIES_UNLIMITED
from epochmq.model.message import StoredMessage
from epochmq.model.names import DEFAULT_TOPIC, retry_topic
from epochmq.model.properties import encode
from epochmq.model.sys_flag import COMPRESSED, COMPRESSION_MASK
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, request
from epochmq.wire.headers.send_headers import SendHeaderV2

PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
FIRST_RETRY_LEVEL = 3
"""Delay level of the first retry; each further retry uses the next level."""


def retry_of(message: StoredMessage, group: str, delay_level: int, max_reconsume: int) -> Outgoing:
    """Return a copy of `message` for the retry topic of `group`.

    Args:
        message: the message that failed.
        group: the consumer group.
        delay_level: the delay level; 0 means by the number of retries, a negative number makes the
            copy a dead letter.
        max_reconsume: retries before a message becomes a dead letter.
    """
    tries = message.reconsume_times + 1
    if delay_level < 0:  # one retry more than the copy says are allowed
        max_reconsume = min(max_reconsume, RETRIES_UNLIMITED - 1)
        tries = max_reconsume + 1
    properties = dict(message.properties)
    properties.setdefault(names.RETRY_TOPIC, message.topic)
    properties.setdefault(names.ORIGIN_MESSAGE_ID, message.offset_msg_id)
    properties[names.RECONSUME_TIME] = str(tries)
    properties[names.MAX_RECONSUME_TIMES] = str(max_reconsume)
    properties[names.DELAY] = str(delay_level or FIRST_RETRY_LEVEL + message.reconsume_times)
    if delay_level < 0:
        del properties[names.DELAY]
    return Outgoing(
        retry_topic(group),
        message.body,
        encode(properties),
        message.flag,
        message.sys_flag & (COMPRESSED | COMPRESSION_MASK),
        message.msg_id,
        tries,
        max_reconsume,
    )


def send_request(outgoing: Outgoing, wall_ms: int) -> Command:
    """Return the request that sends `outgoing`; the broker chooses the queue."""
    header = SendHeaderV2(
        producerGroup=PRODUCER_GROUP,
        topic=outgoing.topic,
        defaultTopic=DEFAULT_TOPIC,
        defaultTopicQueueNums=1,
        queueId=-1,
        sysFlag=outgoing.sys_flag,
        bornTimestamp=wall_ms,
        flag=outgoing.flag,
        properties=outgoing.properties,
        reconsumeTimes=outgoing.reconsume_times,
        maxReconsumeTimes=outgoing.max_reconsume_times,
        unitMode=False,
        batch=False,
    )
    return request(RequestCode.SEND_MESSAGE_V2, header, outgoing.body)


# Backoff -------------------------------------------------------------------------------------
# Delays between tries: doubling up to a bound, spread so that clients do not march in step.


def delay_ms(attempt: int, rng: Rng, *, first_ms: int = 50, most_ms: int = 3_000) -> int:
    """Return the milliseconds before try `attempt` (1 is the first repeat): half fixed, half
    random.
    """
    ceiling = backoff_ms(attempt - 1, first_ms, most_ms)
    return ceiling // 2 + rng.randrange(ceiling // 2 + 1)


# Awaited -------------------------------------------------------------------------------------
# Sends that wait for one broker's answer, and how long it has said nothing.


class Awaited:
    """Counts the sends to one address that wait for an answer."""

    __slots__ = ("_count", "_quiet_since_ms", "topic")

    def __init__(self) -> None:
        self._count = 0
        self._quiet_since_ms = 0
        self.topic: str = ""
        """The topic of the latest send."""

    def sent(self, topic: str, now: int) -> None:
        """Count one more send that waits."""
        if not self._count:
            self._quiet_since_ms = now
        self._count += 1
        self.topic = topic

    def ended(self, now: int) -> None:
        """Count one send less: it was answered or given up."""
        self._count -= 1
        self._quiet_since_ms = now

    def is_silent(self, now: int, limit_ms: int) -> bool:
        """Whether sends wait and none of them ended for `limit_ms`."""
        return self._count > 0 and now - self._quiet_since_ms >= limit_ms
