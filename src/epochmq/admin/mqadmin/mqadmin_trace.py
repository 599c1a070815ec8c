"""`queryMsgTraceById`: who sent a message, and which groups consumed it."""

from typing import TYPE_CHECKING

import click

from epochmq.admin.mqadmin.running import Out, mq_command, opt
from epochmq.admin.shared.java_text import second
from epochmq.admin.shared.trace_figures import COUNT, TraceRow, message_trace
from epochmq.base.unbounded import LONG_MAX
from epochmq.model.names import TRACE_TOPIC

if TYPE_CHECKING:
    from epochmq.client.aio import Admin

_LINE = "{:<10} {:<20} {:<20} {:<20} {:<10} {:<10}"
_SENT = _LINE.format("#Type", "#ProducerGroup", "#ClientHost", "#SendTime", "#CostTimes", "#Status")
_CONSUMED = _LINE.format(
    "#Type", "#ConsumerGroup", "#ClientHost", "#ConsumerTime", "#CostTimes", "#Status"
)


@mq_command(
    "queryMsgTraceById",
    opt("i", "msgId", "The id that the producer gave the message.", required=True),
    opt("t", "traceTopic", "Topic of the traces.", default=TRACE_TOPIC),
    opt("b", "beginTimestamp", "Stored at this time (ms) or later.", int, default=0),
    opt("e", "endTimestamp", "Stored at this time (ms) or before.", int, default=LONG_MAX),
    opt("num", "maxNum", "At most so many of each broker.", click.IntRange(1), default=COUNT),
)
async def query_msg_trace_by_id(
    admin: "Admin",
    out: Out,
    msg_id: str,
    trace_topic: str,
    begin_timestamp: int,
    end_timestamp: int,
    max_num: int,
) -> None:
    """Show who sent a message and which groups consumed it, as their clients traced it."""
    rows = await message_trace(
        admin,
        msg_id,
        trace_topic,
        count=max_num,
        begin_ms=begin_timestamp,
        end_ms=end_timestamp,
    )
    for row in rows:
        if row.is_send:
            _show(out, _SENT, [row])
    groups: dict[str, list[TraceRow]] = {}
    for row in rows:
        if not row.is_send:
            groups.setdefault(row.group, []).append(row)
    for mine in groups.values():
        _show(out, _CONSUMED, mine)


def _show(out: Out, head: str, rows: list[TraceRow]) -> None:
    out.line(head)
    for row in rows:
        kind, status = "Pub" if row.is_send else "Sub", "success" if row.is_done else "failed"
        time = second(row.wall_ms)
        text = _LINE.format(kind, row.group, row.client_host, time, f"{row.cost_ms}ms", status)
        out.line(text, row.row())
    out.line()


COMMANDS = {"queryMsgTraceById": query_msg_trace_by_id}
