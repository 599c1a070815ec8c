"""Collects the message trace of one message, for the command lines and the dashboard."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epochmq.base.errors import EpochError
from epochmq.client.core.trace_text import AFTER, BEFORE, PUB, Traced, parse
from epochmq.model.message import StoredMessage
from epochmq.model.names import TRACE_TOPIC

if TYPE_CHECKING:
    from epochmq.client.aio import Admin

COUNT = 64


@dataclass(frozen=True, slots=True)
class TraceRow:
    """A send of the message, or one call of a listener with it."""

    is_send: bool
    group: str
    client_host: str
    wall_ms: int
    """When the send or the call began, as its client says; -1 if it does not."""
    cost_ms: int
    is_done: bool

    def row(self) -> dict[str, object]:
        """Return the row for JSON and tables."""
        return {
            "what": "sent" if self.is_send else "consumed",
            "group": self.group,
            "client": self.client_host,
            "wall_ms": self.wall_ms,
            "cost_ms": self.cost_ms,
            "ok": self.is_done,
        }


async def message_trace(
    admin: "Admin",
    msg_id: str,
    topic: str = TRACE_TOPIC,
    *,
    count: int = COUNT,
    begin_ms: int = 0,
    end_ms: int = (1 << 63) - 1,
) -> list[TraceRow]:
    """Return what clients traced about a message, by time.

    Args:
        admin: connections to the cluster.
        msg_id: the client's id of the message.
        topic: the topic of the traces.
        count: trace messages that each broker returns at most.
        begin_ms: store time of the first trace wanted, in Unix milliseconds.
        end_ms: store time of the last trace wanted, in Unix milliseconds.

    Raises:
        NotFound: there is no topic with traces.
    """
    found = await admin.messages_by_key(
        topic, msg_id, count=count, begin_ms=begin_ms, end_ms=end_ms
    )
    return rows_of_traces(found, msg_id)


def rows_of_traces(messages: Iterable[StoredMessage], msg_id: str) -> list[TraceRow]:
    """Return the sends and listener calls in messages of a trace topic, by time.

    Old clients write the group and the time of a call only into its begin.
    """
    found: list[tuple[Traced, str]] = []
    for message in messages:
        try:
            text = message.plain_body().decode("utf-8", "replace")
        except EpochError:
            continue  # somebody wrote something else into the topic
        found += [(each, message.born_host[0]) for each in parse(text) if each.msg_id == msg_id]
    begins = {each.request_id: each for each, _ in found if each.kind == BEFORE}
    rows = [
        _row(each, host, begins.get(each.request_id))
        for each, host in found
        if each.kind in (PUB, AFTER)
    ]
    return sorted(rows, key=lambda row: row.wall_ms)


def _row(traced: Traced, host: str, begin: Traced | None) -> TraceRow:
    group, wall_ms = traced.client_group, traced.at
    if begin is not None:
        group, wall_ms = group or begin.client_group, begin.at
    return TraceRow(
        traced.kind == PUB, group or "", host, wall_ms, traced.cost, traced.ok is not False
    )
