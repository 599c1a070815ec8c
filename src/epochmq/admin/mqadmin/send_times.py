"""`sendMsgStatus`, `checkMsgSendRT`, `clusterRT`: send messages and print how long each took."""

import datetime
import time
from typing import TYPE_CHECKING

import click

from epochmq.admin.mqadmin.running import Out, mq_command, opt, repeat
from epochmq.admin.mqadmin.transfer import PRODUCER_GROUP, queue_text
from epochmq.admin.shared.java_text import fields_of
from epochmq.base.errors import EpochError, UsageError
from epochmq.model.message import Message
from epochmq.model.topic import MessageQueue

if TYPE_CHECKING:
    from epochmq.client.aio import Admin, Producer, SendResult

SIZE = 128
AMOUNT = 100
COUNT = 50
INTERVAL_S = 10
_EACH = "{:<32}  {:<4}  {:<20}    {}"
_CLUSTER_HEAD = "{:<24}  {:<24}  {:<4}  {:<8}  {:<8}"
_CLUSTER = "{:<24}  {:<24}  {:<8}  {:<16}  {:<16}"
_LOG_ZONE = datetime.timezone(datetime.timedelta(hours=8))
"""RocketMQ's tool writes the times of `-p` in GMT+8 everywhere."""
_POSITIVE = click.IntRange(1)
_BYTES = click.IntRange(1, 4 << 20)


@mq_command(
    "sendMsgStatus",
    opt("b", "brokerName", "The topic that is named as the broker.", required=True),
    opt("s", "messageSize", "Bytes of a message.", _BYTES, default=SIZE),
    opt("c", "count", "How many messages.", _POSITIVE, default=COUNT),
)
async def send_msg_status(
    admin: "Admin", out: Out, broker_name: str, message_size: int, count: int
) -> None:
    """Send messages to a broker's own topic and print each result."""
    from epochmq.client.aio import Producer

    async with Producer(";".join(admin.name_servers), PRODUCER_GROUP) as producer:
        await producer.send(_message(broker_name, 16))
        for _ in range(count):
            began = time.monotonic()
            sent = await producer.send(_message(broker_name, message_size))
            took_ms = _ms_since(began)
            out.line(f"rt={took_ms}ms, SendResult={result_text(sent)}", _row(took_ms, sent.queue))


def result_text(sent: "SendResult") -> str:
    """Return the result of a send as RocketMQ's tool prints it."""
    values: dict[str, object] = {
        "sendStatus": sent.status.value,
        "msgId": sent.msg_id,
        "offsetMsgId": sent.offset_msg_id,
        "messageQueue": queue_text(sent.queue),
        "queueOffset": sent.queue_offset,
        "recallHandle": sent.recall_handle,
    }
    return fields_of("SendResult", values, " []")


@mq_command(
    "checkMsgSendRT",
    opt("t", "topic", "The topic.", required=True),
    opt("a", "amount", "How many messages.", _POSITIVE, default=AMOUNT),
    opt("s", "size", "Bytes of a message.", _BYTES, default=SIZE),
)
async def check_msg_send_rt(admin: "Admin", out: Out, topic: str, amount: int, size: int) -> None:
    """Send messages to the queues of a topic in turn and print how long each took."""
    from epochmq.client.aio import Producer

    out.line(_EACH.format("#Broker Name", "#QID", "#Send Result", "#RT"))
    took: list[int] = []
    async with Producer(";".join(admin.name_servers), PRODUCER_GROUP) as producer:
        queues = await producer.queues(topic)
        for number in range(amount):
            queue = queues[number % len(queues)]
            took_ms, is_sent = await _timed(producer, _message(topic, size), queue)
            took.append(took_ms)
            where = (queue.broker_name, queue.queue_id)
            row = {**_row(took_ms, queue), "sent": is_sent}
            out.line(_EACH.format(*where, str(is_sent).lower(), took_ms), row)
    out.line(f"Avg RT: {_mean(took):.2f}")


@mq_command(
    "clusterRT",
    opt("a", "amount", "How many messages for each broker.", _POSITIVE, default=AMOUNT),
    opt("s", "size", "Bytes of a message.", _BYTES, default=SIZE),
    opt("c", "cluster", "One cluster only."),
    opt("p", "printLog", "Print lines for a log: true or false.", bool, default="false"),
    opt("m", "machineRoom", "A name for the lines of -p.", default="noname"),
    opt("i", "interval", "Print again every so many seconds.", _POSITIVE, default=INTERVAL_S),
)
async def cluster_rt(
    admin: "Admin",
    out: Out,
    amount: int,
    size: int,
    cluster: str | None,
    print_log: bool,
    machine_room: str,
    interval: int,
) -> None:
    """Send messages to each broker's own topic, again and again, and print the mean time."""
    from epochmq.client.aio import Producer

    if not print_log:
        heads = ("#Cluster Name", "#Broker Name", "#RT", "#successCount", "#failCount")
        out.line(_CLUSTER_HEAD.format(*heads))
    async with Producer(";".join(admin.name_servers), PRODUCER_GROUP) as producer:

        async def once() -> None:
            table = (await admin.cluster_info()).cluster_addr_table
            if cluster is not None and cluster not in table:
                known = ", ".join(sorted(table)) or "none"
                raise UsageError(f"cluster {cluster} is not known; there are: {known}")
            for name in [cluster] if cluster is not None else sorted(table):
                for broker in sorted(table[name]):
                    await measure(name, broker)

        async def measure(name: str, broker: str) -> None:
            found = [await _timed(producer, _message(broker, size), None) for _ in range(amount)]
            mean = _mean([took_ms for took_ms, _ in found])
            good = sum(is_sent for _, is_sent in found)
            row = {"cluster": name, "broker": broker, "ms": mean, "failed": amount - good}
            if print_log:
                now = f"{datetime.datetime.now(_LOG_ZONE):%Y-%m-%d %H:%M:%S}"
                out.line(f"{now}|{machine_room}|{name}|{broker}|{mean:.0f}", row)
            else:
                out.line(_CLUSTER.format(name, broker, f"{mean:.2f}", good, amount - good), row)

        await repeat(once, interval)


def _message(topic: str, size: int) -> Message:
    return Message(topic, b"a" * size)


async def _timed(
    producer: "Producer", message: Message, queue: MessageQueue | None
) -> tuple[int, bool]:
    """Send; return the milliseconds that it took, and whether the message is stored."""
    began = time.monotonic()
    try:
        await producer.send(message, queue=queue)
    except EpochError:
        return _ms_since(began), False
    return _ms_since(began), True


def _ms_since(began: float) -> int:
    return int((time.monotonic() - began) * 1_000)


def _mean(took: list[int]) -> float:
    """Return the mean without the first, for which connections were opened."""
    rest = took[1:] or took
    return sum(rest) / len(rest)


def _row(took_ms: int, queue: MessageQueue) -> dict[str, object]:
    return {"broker": queue.broker_name, "queue": queue.queue_id, "ms": took_ms}


COMMANDS = {
    "sendMsgStatus": send_msg_status,
    "checkMsgSendRT": check_msg_send_rt,
    "clusterRT": cluster_rt,
}
