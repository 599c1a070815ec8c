"""What the page about waiting messages shows: open transactions, timers, delays, POP."""

from collections.abc import AsyncGenerator

from epochmq.admin.dashboard.cluster_client import ClusterClient
from epochmq.admin.dashboard.message_queries import short_row
from epochmq.admin.dashboard.paging import Row
from epochmq.admin.messages.following import PulledSpan, merged
from epochmq.admin.messages.hidden import describe
from epochmq.admin.shared.broker_figures import BrokerFigures, brokers
from epochmq.base.errors import EpochError, NotFound
from epochmq.model import delay_levels
from epochmq.model.message import StoredMessage
from epochmq.model.names import (
    HALF_TOPIC,
    OP_HALF_TOPIC,
    REVIVE_TOPIC_PREFIX,
    SYSTEM_GROUP_PREFIX,
    TIMER_TOPIC,
)
from epochmq.model.topic import MessageQueue

READ_MAX = 2_000
"""Messages of one internal queue that are read."""
ROWS_MAX = 200
_TRANSACTIONS = f"{SYSTEM_GROUP_PREFIX}TRANS"


async def waiting(client: ClusterClient, now_wall_ms: int) -> Row:
    """Return what waits in the cluster, by kind; `now_wall_ms` is Unix milliseconds."""
    found = await brokers(client.admin)
    masters = [each for each in found if each.broker_id == 0 and each.problem is None]
    timed: list[Row] = []
    half: list[Row] = []
    popped: list[Row] = []
    for broker in masters:
        half += await _open_transactions(client, broker)
        timed += _due_later(await _newest(client, TIMER_TOPIC, broker.name), now_wall_ms)
        topic = f"{REVIVE_TOPIC_PREFIX}{broker.cluster}"
        popped += _due_later(await _newest(client, topic, broker.name), now_wall_ms)
    return {
        "brokers": [_counts(broker) for broker in masters],
        "transactions": half[:ROWS_MAX],
        "timers": timed[:ROWS_MAX],
        "popped": popped[:ROWS_MAX],
    }


def _counts(broker: BrokerFigures) -> Row:
    """Return the numbers that a broker reports about itself."""
    return {
        "broker": broker.name,
        "timers": int(broker.number("timerCongestNum")),
        "timer_behind_s": int(broker.number("timerReadBehind")),
        "delayed": delayed_messages(broker.figures),
        "escape_backlog": int(broker.number("epochmqEscapeWaiting")),
    }


def delayed_messages(figures: dict[str, str]) -> int:
    """Return how many messages wait in the delay levels; a figure is "delivered,end"."""
    total = 0
    for key, text in figures.items():
        if key.startswith("scheduleMessageOffset_"):
            delivered, _, end = text.partition(",")
            if delivered.isdecimal() and end.isdecimal():
                total += max(0, int(end) - int(delivered))
    return total


def _due_later(rows: list[Row], now_wall_ms: int) -> list[Row]:
    """Return the messages that are due later than now, the next first."""
    later = [row for row in rows if isinstance(at := row.get("due_ms"), int) and at > now_wall_ms]
    return sorted(later, key=lambda row: int(str(row["due_ms"])))


def waiting_row(message: StoredMessage) -> Row:
    """Return a message of an internal topic, with the beginning of its body."""
    row = short_row(message)
    names = ("msg_id", "queue_id", "queue_offset", "stored_ms", "body")
    kept = {name: row[name] for name in names}
    return {**kept, "topic": message.topic, **describe(message, delay_levels.DEFAULT)}


async def _newest(client: ClusterClient, topic: str, broker: str) -> list[Row]:
    """Return the newest messages of an internal topic on one broker."""
    try:
        queues = [q for q in await client.consumer.queues(topic) if q.broker_name == broker]
        found: list[Row] = []
        for queue in queues:
            end = await client.consumer.max_offset(queue)
            begin = max(await client.consumer.min_offset(queue), end - READ_MAX)
            found += [waiting_row(each) async for each in _read(client, queue, begin, end)]
    except NotFound:
        return []  # nothing of that kind was ever stored
    return found


def _read(
    client: ClusterClient, queue: MessageQueue, begin: int, end: int
) -> AsyncGenerator[StoredMessage]:
    """Yield messages one by one: many whole bodies would need much memory."""
    return merged(client.consumer, [PulledSpan(queue, begin, end)], "*")


async def _open_transactions(client: ClusterClient, broker: BrokerFigures) -> list[Row]:
    """Return half messages without an end.

    All before the committed offset have ended; a record of the other topic names more of them.
    """
    half, ended = (MessageQueue(t, broker.name, 0) for t in (HALF_TOPIC, OP_HALF_TOPIC))
    try:
        await client.consumer.queues(HALF_TOPIC)
        begin = await client.admin.committed_at(broker.address, _TRANSACTIONS, half) or 0
        end = await client.consumer.max_offset(half)
        halves = _read(client, half, begin, min(end, begin + READ_MAX))
        rows = [waiting_row(each) async for each in halves]
        await client.consumer.queues(OP_HALF_TOPIC)
        begin = await client.admin.committed_at(broker.address, _TRANSACTIONS, ended) or 0
        end = await client.consumer.max_offset(ended)
        over: set[int] = set()
        async for record in _read(client, ended, begin, min(end, begin + READ_MAX)):
            over |= ended_offsets(record)
    except EpochError:
        return []
    return [row for row in rows if row["queue_offset"] not in over]


def ended_offsets(record: StoredMessage) -> set[int]:
    """Return the offsets of half messages that a record ends: numbers with commas."""
    text = bytes(record.body).decode("ascii", "replace")
    return {int(part) for part in text.split(",") if part.strip().isdecimal()}
