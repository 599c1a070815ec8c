"""`sendMessage`, `consumeMessage`."""

import json
from typing import TYPE_CHECKING

import click

from epochmq.admin.messages.printer import as_json
from epochmq.admin.mqadmin.queries import body_text, one_line
from epochmq.admin.mqadmin.running import Out, mq_command, opt
from epochmq.admin.shared.java_text import fields_of, to_moment
from epochmq.admin.shared.output import note
from epochmq.base.errors import UsageError
from epochmq.model.message import Message
from epochmq.model.names import TOOLS_GROUP
from epochmq.model.topic import MessageQueue

if TYPE_CHECKING:
    from epochmq.client.aio import Admin, PullConsumer

PRODUCER_GROUP = "epochmq-mqadmin"
_SENT = "{:<32}  {:<4}  {:<20}    {}"
_COUNT = 128
_PULL_COUNT = 32


@mq_command(
    "sendMessage",
    opt("t", "topic", "The topic.", required=True),
    opt("p", "body", "The body, as text.", required=True),
    opt("k", "key", "Keys, with blanks between."),
    opt("c", "tags", "The tag."),
    opt("b", "broker", "Send to this broker, by name."),
    opt("i", "qid", "With -b: to this queue.", click.IntRange(0)),
    opt("m", "msgTraceEnable", "Taken; traces are not written.", bool),
)
async def send_message(
    admin: "Admin",
    out: Out,
    topic: str,
    body: str,
    key: str | None,
    tags: str | None,
    broker: str | None,
    qid: int | None,
    msg_trace_enable: bool | None,
) -> None:
    """Send one message and print where it is."""
    from epochmq.client.aio import Producer

    if qid is not None and broker is None:
        raise click.UsageError("a queue needs its broker: give -b BROKER as well")
    if msg_trace_enable:
        note("traces are not written; the message is sent without one")
    message = Message(topic, body.encode(), tags, tuple((key or "").split()))
    async with Producer(";".join(admin.name_servers), PRODUCER_GROUP) as producer:
        queue = _chosen(await producer.queues(topic), broker, qid)
        sent = await producer.send(message, queue=queue)
    out.line(_SENT.format("#Broker Name", "#QID", "#Send Result", "#MsgId"))
    row = {
        "broker": sent.queue.broker_name,
        "queue": sent.queue.queue_id,
        "queue_offset": sent.queue_offset,
        "status": sent.status.value,
        "msg_id": sent.msg_id,
        "offset_msg_id": sent.offset_msg_id,
    }
    where = (sent.queue.broker_name, sent.queue.queue_id)
    out.line(_SENT.format(*where, sent.status.value, sent.msg_id), row)


def _chosen(
    queues: tuple[MessageQueue, ...], broker: str | None, queue_id: int | None
) -> MessageQueue | None:
    """The queue asked for, one of the broker's, or None for any; `UsageError` if there is none."""
    if broker is None:
        return None
    for queue in queues:
        if queue.broker_name == broker and queue_id in (None, queue.queue_id):
            return queue
    known = ", ".join(map(str, queues))
    raise UsageError(f"there is no such queue to send to; there are {known}")


@mq_command(
    "consumeMessage",
    opt("t", "topic", "The topic.", required=True),
    opt("b", "brokerName", "With -i: the queue's broker, by name."),
    opt("i", "queueId", "With -b: this queue only.", click.IntRange(0)),
    opt("o", "offset", "With -i: from this offset on.", click.IntRange(0)),
    opt("g", "consumerGroup", "Read as this group; nothing is committed.", default=TOOLS_GROUP),
    opt(
        "s",
        "beginTimestamp",
        "From this time on (ms or yyyy-MM-dd#HH:mm:ss:SSS).",
        convert=to_moment,
    ),
    opt("e", "endTimestamp", "Up to this time.", convert=to_moment),
    opt("c", "MessageNumber", "At most so many messages.", click.IntRange(1), default=_COUNT),
)
async def consume_message(
    admin: "Admin",
    out: Out,
    topic: str,
    broker_name: str | None,
    queue_id: int | None,
    offset: int | None,
    consumer_group: str,
    begin_timestamp: tuple[str, int] | None,
    end_timestamp: tuple[str, int] | None,
    message_number: int,
) -> None:
    """Print the messages of a topic, or of one queue."""
    from epochmq.client.aio import PullConsumer

    if queue_id is not None and broker_name is None:
        raise click.UsageError("a queue needs its broker: give -b BROKERNAME as well")
    if offset is not None and queue_id is None:
        raise click.UsageError("an offset needs its queue: give -i QUEUEID as well")
    begin_ms = begin_timestamp[1] if begin_timestamp else None
    end_ms = end_timestamp[1] if end_timestamp else None
    left = message_number
    async with PullConsumer(";".join(admin.name_servers), consumer_group) as consumer:
        queues = [
            queue
            for queue in await consumer.queues(topic)
            if broker_name in (None, queue.broker_name) and queue_id in (None, queue.queue_id)
        ]
        if not queues:
            raise UsageError(f"topic {topic} has no such queue")
        for queue in queues:
            first, last = await offset_range(consumer, queue, begin_ms, end_ms)
            first = max(first, offset or 0)
            if last - first > left:
                whose = f"of the {queue.queue_id} queue " if queue_id is None else ""
                out.line(f"The older {left} message {whose}will be provided")
                last = first + left
            left -= await _print_queue(consumer, out, queue, first, last)
            if left <= 0:
                return


async def offset_range(
    consumer: "PullConsumer", queue: MessageQueue, begin_ms: int | None, end_ms: int | None
) -> tuple[int, int]:
    """Return the first offset of a time range, and the one behind its last."""
    if begin_ms is None:
        first = await consumer.min_offset(queue)
    else:
        first = await consumer.offset_at(queue, begin_ms)
    if end_ms is None:
        return first, await consumer.max_offset(queue)
    return first, await consumer.offset_at(queue, end_ms)


async def _print_queue(
    consumer: "PullConsumer", out: Out, queue: MessageQueue, first: int, last: int
) -> int:
    """Print messages from `first` to before `last`; how many they were."""
    name = queue_text(queue)
    printed, status = 0, "NO_NEW_MSG"
    while first < last:
        result = await consumer.pull(queue, first, count=min(last - first, _PULL_COUNT))
        status = result.status.value
        if not result.messages and result.next_offset <= first:
            break
        if result.messages:
            out.line("Consume ok")
        for message in result.messages:
            if message.queue_offset < last:
                text = body_text(message, "UTF-8")
                out.line(one_line(message, queue.broker_name, text), json.loads(as_json(message)))
                printed += 1
        first, status = result.next_offset, "NO_NEW_MSG"
    out.line(f"{name} print msg finished. status={status}, offset={first}")
    return printed


def queue_text(queue: MessageQueue) -> str:
    """Return the queue as RocketMQ's tool prints it."""
    where = {"topic": queue.topic, "brokerName": queue.broker_name, "queueId": queue.queue_id}
    return fields_of("MessageQueue", where, " []")


COMMANDS = {"sendMessage": send_message, "consumeMessage": consume_message}
