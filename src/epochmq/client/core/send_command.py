"""The request that sends a prepared message."""

from epochmq.client.core.outgoing import Outgoing
from epochmq.model.message import Message
from epochmq.model.names import DEFAULT_TOPIC
from epochmq.model.property_names import MSG_TYPE
from epochmq.model.topic import MessageQueue
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, request
from epochmq.wire.headers.send_headers import SendHeaderV2

REPLY = "reply"
"""Value of MSG_TYPE."""
NEW_TOPIC_QUEUES = 4
"""Queues of a topic that its first send creates, unless the broker wants fewer."""


def send_code(message: Message) -> RequestCode:
    """Return the code of the request for one message: a reply is pushed by the broker."""
    if message.properties.get(MSG_TYPE) == REPLY:
        return RequestCode.SEND_REPLY_MESSAGE_V2
    return RequestCode.SEND_MESSAGE_V2


def send_command(
    outgoing: Outgoing,
    code: int,
    queue: MessageQueue,
    group: str,
    born_wall_ms: int,
    *,
    oneway: bool = False,
) -> Command:
    """Return the request.

    Args:
        outgoing: the message, or the messages of a batch.
        code: SEND_MESSAGE_V2, SEND_BATCH_MESSAGE or SEND_REPLY_MESSAGE_V2.
        queue: the queue to send to.
        group: the producer group.
        born_wall_ms: the time of the send (Unix milliseconds).
        oneway: whether the broker must not answer.
    """
    header = SendHeaderV2(
        producerGroup=group,
        topic=outgoing.topic,
        defaultTopic=DEFAULT_TOPIC,
        defaultTopicQueueNums=NEW_TOPIC_QUEUES,
        queueId=queue.queue_id,
        sysFlag=outgoing.sys_flag,
        bornTimestamp=born_wall_ms,
        flag=outgoing.flag,
        properties=outgoing.properties,
        reconsumeTimes=outgoing.reconsume_times,
        maxReconsumeTimes=outgoing.max_reconsume_times,
        unitMode=False,
        batch=code == RequestCode.SEND_BATCH_MESSAGE,
        brokerName=queue.broker_name,
    )
    return request(code, header, outgoing.body, oneway)
