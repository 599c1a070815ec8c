"""`resetOffsetByTime`, `skipAccumulatedMessage`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from epochmq.admin.mqadmin.running import Out, mq_command, opt
from epochmq.admin.shared.java_text import text_of, to_moment
from epochmq.admin.shared.operations import reset_to_time
from epochmq.model.topic import MessageQueue

if TYPE_CHECKING:
    from epochmq.client.aio import Admin
    from epochmq.client.aio.admin_progress import Moved

_NEW = "{:<40}  {:<40}  {:<40}"
_OLD = "{:<20}  {:<20}  {:<20}  {:<20}  {:<20}  {:<20}"
_OLD_HEAD = _OLD.format(
    "#brokerName",
    "#queueId",
    "#brokerOffset",
    "#consumerOffset",
    "#timestampOffset",
    "#resetOffset",
)


@mq_command(
    "resetOffsetByTime",
    opt("g", "group", "The group.", required=True),
    opt("t", "topic", "The topic.", required=True),
    opt(
        "s",
        "timestamp",
        "now, -1 (the end), milliseconds since 1970, or yyyy-MM-dd#HH:mm:ss:SSS.",
        convert=to_moment,
        required=True,
    ),
    opt("f", "force", "false only moves back.", bool, default="true"),
    opt("b", "broker", "With -q: one queue of this broker, HOST:PORT."),
    opt("q", "queue", "With -b: the queue's id.", click.IntRange(0)),
    opt("o", "offset", "With -b and -q: this offset, not a time's.", click.IntRange(0)),
    opt("c", "cluster", "Taken and not needed: routes tell the cluster."),
)
async def reset_offset_by_time(
    admin: "Admin",
    out: Out,
    group: str,
    topic: str,
    timestamp: tuple[str, int],
    force: bool,
    broker: str | None,
    queue: int | None,
    offset: int | None,
    cluster: str | None,
) -> None:
    """Move a group in all queues of a topic; members that are there go on from there."""
    if (broker is None) != (queue is None) or (offset is not None and broker is None):
        raise click.UsageError("-b BROKER and -q QUEUE go together, and -o OFFSET needs both")
    text, wall_ms = timestamp
    when = f"timestamp(string)[{text}], timestamp(long)[{wall_ms}]"
    if broker is not None and queue is not None:
        place = f"group[{group}], topic[{topic}], queueId[{queue}], broker[{broker}]"
        out.line(f"start reset consumer offset by specified, {place}, {when}")
        where = MessageQueue(topic, "", queue)
        target = offset if offset is not None else await admin.offset_at(broker, where, wall_ms)
        await admin.reset_queue(broker, group, topic, queue, target)
        out.line(f"reset consumer offset to {target}", _row(group, where, target))
        return
    moved = await reset_to_time(admin, group, topic, wall_ms, force=force)
    if isinstance(moved, list):
        flags = f"consumerGroup[{group}], topic[{topic}], force[{text_of(force)}]"
        out.line(f"reset consumer offset by specified {flags}, {when}")
        _print_moved(out, group, moved)
        return
    flags = f"group[{group}], topic[{topic}], force[{text_of(force)}]"
    out.line(f"start reset consumer offset by specified, {flags}, {when}")
    _print_new(out, group, moved)


@mq_command(
    "skipAccumulatedMessage",
    opt("g", "group", "The group.", required=True),
    opt("t", "topic", "The topic.", required=True),
    opt("f", "force", "false only moves back.", bool, default="true"),
    opt("c", "cluster", "Taken and not needed: routes tell the cluster."),
)
async def skip_accumulated_message(
    admin: "Admin", out: Out, group: str, topic: str, force: bool, cluster: str | None
) -> None:
    """Move a group to the end of all queues of a topic: it skips what it has not consumed."""
    from epochmq.client.aio.admin_progress import TO_END

    moved = await reset_to_time(admin, group, topic, TO_END, force=force)
    if isinstance(moved, list):
        _print_moved(out, group, moved, _OLD_HEAD.replace("#resetOffset   ", "#rollbackOffset"))
        return
    _print_new(out, group, moved)


def _print_new(out: Out, group: str, moved: Mapping[MessageQueue, int]) -> None:
    out.line(_NEW.format("#brokerName", "#queueId", "#offset"))
    for at, target in moved.items():
        line = _NEW.format(at.broker_name[:32], at.queue_id, target)
        out.line(line, _row(group, at, target))


def _print_moved(out: Out, group: str, moved: "list[Moved]", head: str = _OLD_HEAD) -> None:
    out.line(head)
    for at in moved:
        line = _OLD.format(
            at.queue.broker_name[:32],
            at.queue.queue_id,
            at.broker_offset,
            at.consumer_offset,
            at.found_offset,
            at.reset_offset,
        )
        out.line(line, _row(group, at.queue, at.reset_offset))


def _row(group: str, queue: MessageQueue, offset: int) -> dict[str, object]:
    return {
        "group": group,
        "topic": queue.topic,
        "broker": queue.broker_name or None,
        "queue": queue.queue_id,
        "offset": offset,
    }


COMMANDS = {
    "resetOffsetByTime": reset_offset_by_time,
    "skipAccumulatedMessage": skip_accumulated_message,
}
