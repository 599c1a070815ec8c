"""`printMsg`, `printMsgByQueue`."""

import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import click

from epochmq.admin.messages.printer import as_json
from epochmq.admin.mqadmin.queries import NOT_PRINTED, body_text, one_line
from epochmq.admin.mqadmin.running import Out, mq_command, opt
from epochmq.admin.mqadmin.transfer import offset_range, queue_text
from epochmq.admin.shared.java_text import to_moment
from epochmq.base.errors import UsageError
from epochmq.model.message import StoredMessage
from epochmq.model.names import TOOLS_GROUP
from epochmq.model.topic import MessageQueue

if TYPE_CHECKING:
    from epochmq.client.aio import Admin, PullConsumer, PullResult

Moment = tuple[str, int] | None
_RULE = "-" * 56
_TIME = "(ms or yyyy-MM-dd#HH:mm:ss:SSS)"
_PULL_COUNT = 32


@mq_command(
    "printMsg",
    opt("t", "topic", "The topic.", required=True),
    opt("c", "charsetName", "Charset of the bodies.", default="UTF-8"),
    opt("s", "subExpression", "Messages with these tags, as TagA || TagB.", default="*"),
    opt("b", "beginTimestamp", f"From this time on {_TIME}.", convert=to_moment),
    opt("e", "endTimestamp", "Up to this time.", convert=to_moment),
    opt("d", "printBody", "Print bodies: true or false.", bool, default="true"),
    opt("l", "lmqParentTopic", "Read the queues of this topic's brokers (LMQ)."),
)
async def print_msg(
    admin: "Admin",
    out: Out,
    topic: str,
    charset_name: str,
    sub_expression: str,
    begin_timestamp: Moment,
    end_timestamp: Moment,
    print_body: bool,
    lmq_parent_topic: str | None,
) -> None:
    """Print the messages of all queues of a topic."""
    from epochmq.client.aio import PullConsumer

    if lmq_parent_topic is not None:
        raise UsageError("EpochMQ has no light message queues (LMQ); leave -l out")
    async with PullConsumer(";".join(admin.name_servers), TOOLS_GROUP) as consumer:
        for queue in await consumer.queues(topic):
            first, end = await _bounds(consumer, queue, begin_timestamp, end_timestamp)
            out.line(f"minOffset={first}, maxOffset={end}, {queue_text(queue)}")
            async for result in _pulls(consumer, queue, first, end, sub_expression):
                for message in result.messages:
                    _print(out, message, queue, charset_name, with_body=print_body)
                if not result.messages:
                    what = f"status={result.status.value}, offset={result.next_offset}"
                    is_end = result.status.value != "NO_MATCHED_MSG"
                    text = "print msg finished" if is_end else "no matched msg"
                    out.line(f"{queue_text(queue)} {text}. {what}")
            out.line(_RULE)


@mq_command(
    "printMsgByQueue",
    opt("t", "topic", "The topic.", required=True),
    opt("a", "brokerName", "The broker, by name.", required=True),
    opt("i", "queueId", "The queue.", click.IntRange(0), required=True),
    opt("c", "charsetName", "Charset of the bodies.", default="UTF-8"),
    opt("s", "subExpression", "Messages with these tags, as TagA || TagB.", default="*"),
    opt("b", "beginTimestamp", f"From this time on {_TIME}.", convert=to_moment),
    opt("e", "endTimestamp", "Up to this time.", convert=to_moment),
    opt("p", "printMsg", "Print messages: true or false.", bool, default="false"),
    opt("d", "printBody", "Print bodies: true or false.", bool, default="false"),
    opt("f", "calculate", "Count messages by tag: true or false.", bool, default="false"),
)
async def print_msg_by_queue(
    admin: "Admin",
    out: Out,
    topic: str,
    broker_name: str,
    queue_id: int,
    charset_name: str,
    sub_expression: str,
    begin_timestamp: Moment,
    end_timestamp: Moment,
    print_msg: bool,
    print_body: bool,
    calculate: bool,
) -> None:
    """Print the messages of one queue, or count them by tag."""
    from epochmq.client.aio import PullConsumer

    counts: Counter[str] = Counter()
    queue = MessageQueue(topic, broker_name, queue_id)
    async with PullConsumer(";".join(admin.name_servers), TOOLS_GROUP) as consumer:
        first, end = await _bounds(consumer, queue, begin_timestamp, end_timestamp)
        async for result in _pulls(consumer, queue, first, end, sub_expression):
            counts.update(message.tags for message in result.messages if message.tags)
            for message in result.messages if print_msg else ():
                _print(out, message, queue, charset_name, with_body=print_body)
    for tag, count in counts.most_common() if calculate else ():
        out.line(f"Tag: {tag:<30} Count: {count}", {"tag": tag, "count": count})


async def _bounds(
    consumer: "PullConsumer", queue: MessageQueue, begin: Moment, end: Moment
) -> tuple[int, int]:
    return await offset_range(consumer, queue, begin[1] if begin else None, end[1] if end else None)


async def _pulls(
    consumer: "PullConsumer", queue: MessageQueue, first: int, end: int, expression: str
) -> AsyncIterator["PullResult"]:
    """Yield the answers to pulls from `first` on, until one reaches `end` or brings nothing new."""
    while first < end:
        result = await consumer.pull(queue, first, count=_PULL_COUNT, expression=expression)
        yield result
        if not result.messages and result.next_offset <= first:
            return
        first = result.next_offset


def _print(
    out: Out, message: StoredMessage, queue: MessageQueue, charset: str, *, with_body: bool
) -> None:
    text = body_text(message, charset) if with_body else NOT_PRINTED
    out.line(one_line(message, queue.broker_name, text), json.loads(as_json(message)))


COMMANDS = {"printMsg": print_msg, "printMsgByQueue": print_msg_by_queue}
