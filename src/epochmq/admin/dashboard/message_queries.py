"""What the pages about messages show: search, one message, dead letters."""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path

from epochmq.admin.dashboard.cluster_client import ClusterClient
from epochmq.admin.dashboard.paging import Row, rows_of
from epochmq.admin.messages.following import merged, spans_of
from epochmq.admin.messages.position import PositionKind, StartPosition
from epochmq.admin.nouns.noun_base import route_of
from epochmq.admin.nouns.noun_message import row_of
from epochmq.admin.shared.trace_figures import message_trace
from epochmq.base.errors import EpochError, NotFound
from epochmq.client.aio import Sql
from epochmq.model.message import StoredMessage
from epochmq.model.names import DLQ, dlq_topic, is_dlq_topic
from epochmq.spark.jobs.dlq_causes import dead_of
from epochmq.spark.jobs.dlq_ledger import read_ledger

FOUND_MAX = 100
BODY_CHARS = 2_000
"""Characters of a body in a list; the page of one message has the whole body."""
LETTERS_MAX = 200


async def find_messages(
    client: ClusterClient, topic: str, *, msg_id: str, key: str, begin_ms: int, end_ms: int
) -> list[Row]:
    """Return the messages of a topic with an id or a key, else those of a time, by store time.

    Args:
        client: connections to the cluster.
        topic: name of the topic.
        msg_id: id of the message, by its client or by its place; empty if it is not known.
        key: one of the keys of the message; empty if it is not known.
        begin_ms: store time of the first message wanted, in Unix milliseconds.
        end_ms: store time of the last message wanted, in Unix milliseconds.

    Raises:
        NotFound: the topic or the message does not exist.
    """
    await route_of(client.admin, topic)
    if msg_id:
        try:
            found = [await client.admin.message(topic, msg_id)]
        except NotFound:
            found = await client.admin.waiting_messages(topic, msg_id)
            if not found:
                raise
    elif key:
        found = await client.admin.messages_by_key(
            topic, key, count=FOUND_MAX, begin_ms=begin_ms, end_ms=end_ms
        )
    else:
        return await _stored_between(client, topic, begin_ms, end_ms)
    return [short_row(message) for message in found[:FOUND_MAX]]


async def _stored_between(
    client: ClusterClient, topic: str, begin_ms: int, end_ms: int
) -> list[Row]:
    """Return the first messages of a time as rows: whole bodies are not kept."""
    found: list[Row] = []
    spans = await spans_of(client.consumer, topic, StartPosition(PositionKind.TIME, begin_ms))
    async with contextlib.aclosing(merged(client.consumer, spans, "*")) as messages:
        async for message in messages:
            if message.store_wall_ms > end_ms or len(found) >= FOUND_MAX:
                break
            found.append(short_row(message))
    return found


async def message_detail(client: ClusterClient, topic: str, msg_id: str) -> Row:
    """Return one message with its state in each consumer group, and its trace.

    Raises:
        NotFound: the topic or the message does not exist.
    """
    await route_of(client.admin, topic)
    message = await client.admin.message(topic, msg_id)
    tracks = await client.admin.tracks(message)
    try:
        traces = [each.row() for each in await message_trace(client.admin, message.msg_id)]
    except EpochError:
        traces = []  # there is no topic of traces, or the user may not read it
    return {
        **row_of(message),
        "traces": traces,
        "tracks": [
            {"group": each.group, "track": each.kind, "problem": each.problem} for each in tracks
        ],
    }


def short_row(message: StoredMessage) -> Row:
    """Return a message for a list, with the beginning of its body."""
    row = row_of(message)
    body = row.pop("body", None)
    if isinstance(body, str):
        row["body"] = body[:BODY_CHARS]
        row["body_is_cut"] = len(body) > BODY_CHARS
    else:
        row.pop("body_base64", None)
        row["body"] = None
    return row


def filter_of(expression: str, is_sql: bool) -> str | Sql:
    """Return the filter of a live tail."""
    if is_sql:
        return Sql(expression)
    return expression.strip() or "*"


# Dead letters --------------------------------------------------------------------------------


async def dead_letter_groups(client: ClusterClient) -> list[Row]:
    """Return the groups that have dead letters, with their number."""
    groups = sorted(
        name.removeprefix(DLQ) for name in await client.admin.topics() if is_dlq_topic(name)
    )

    async def one(group: str) -> Row:
        try:
            offsets, _ = await client.admin.topic_stats(dlq_topic(group))
        except EpochError as error:
            return {"group": group, "letters": None, "last_ms": None, "problem": str(error)}
        count = sum(max(0, at.max_offset - max(0, at.min_offset)) for at in offsets.values())
        last_ms = max((at.last_update_timestamp for at in offsets.values()), default=0)
        return {"group": group, "letters": count, "last_ms": last_ms or None, "problem": None}

    return await rows_of(groups, one)


async def dead_letters(client: ClusterClient, group: str, ledger: Path) -> Row:
    """Return the newest dead letters of a group, and which of them were sent again.

    Args:
        client: connections to the cluster.
        group: name of the consumer group.
        ledger: the file with the letters that were sent again.

    Raises:
        NotFound: the group has no dead letters.
    """
    topic = dlq_topic(group)
    position = StartPosition(PositionKind.BACK, LETTERS_MAX)
    spans = await spans_of(client.consumer, topic, position)
    done = (await asyncio.to_thread(read_ledger, ledger, group)).done
    found: list[tuple[int, Row]] = []
    for span in spans:
        async for message in merged(client.consumer, [span], "*"):
            row = _letter_row(message, span.queue.broker_name, done)
            found.append((message.store_wall_ms, row))
    found.sort(key=lambda pair: pair[0], reverse=True)
    return {"group": group, "rows": [row for _, row in found[:LETTERS_MAX]]}


def _letter_row(message: StoredMessage, broker: str, done: Mapping[str, str]) -> Row:
    dead = dead_of(message, broker)
    return {
        "place": dead.place,
        "msg_id": dead.msg_id,
        "topic": dead.topic or None,
        "tags": dead.tags,
        "keys": dead.keys,
        "tries": dead.tries,
        "stored_ms": dead.stored_ms,
        "body": short_row(message)["body"],
        "resent_as": done.get(dead.place),
    }
