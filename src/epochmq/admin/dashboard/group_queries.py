"""What the pages about consumer groups show: lag, members, handlers that are stuck."""

import asyncio
from collections.abc import Iterable

from epochmq.admin.dashboard.cluster_client import ClusterClient
from epochmq.admin.dashboard.paging import Row, page_of, rows_of
from epochmq.admin.nouns.noun_base import all_groups, check_group_known
from epochmq.admin.shared.group_figures import QueuePosition, progress, summary
from epochmq.base.errors import EpochError, NotFound
from epochmq.client.core.release_names import release_name
from epochmq.model.names import is_system_group
from epochmq.wire.bodies.body import mq_map_decode
from epochmq.wire.bodies.group_bodies import ClientConnection
from epochmq.wire.bodies.runtime_bodies import ConsumerRunningInfo

STUCK_MS = 30_000
"""A handler that has messages and ends none of them for this time is shown as stuck."""
MEMBERS_MAX = 64
"""Members that are asked about themselves."""


async def group_list(client: ClusterClient, part: str, page: int, with_system: bool) -> Row:
    """Return one page of consumer groups with their members and their lag."""
    names = [
        name for name in await all_groups(client.admin) if with_system or not is_system_group(name)
    ]
    shown, total = page_of(names, part, page)

    async def one(group: str) -> Row:
        return (await summary(client.admin, group)).row()

    return {"rows": await rows_of(shown, one), "total": total}


async def group_detail(client: ClusterClient, group: str, now_wall_ms: int) -> Row:
    """Return the lag of a group by queue, and what its members report about themselves.

    Raises:
        NotFound: the group does not exist; the text names the most similar one.
    """
    await check_group_known(client.admin, group)
    try:
        positions = (await progress(client.admin, group, owners=True)).positions
    except NotFound:
        positions = []  # it never consumed
    members = await _members(client, group, now_wall_ms)
    lags = lag_by_member(positions)
    for member in members:
        member["lag"] = lags.get(str(member["member"]), 0)
    slowest = max(lags, key=lambda name: lags[name], default=None)
    return {
        "group": group,
        "lag": sum(position.lag for position in positions),
        "in_flight": sum(position.in_flight for position in positions),
        "queues": [position.row() for position in positions],
        "members": members,
        "slowest": slowest if slowest is not None and lags[slowest] > 0 else None,
    }


def lag_by_member(positions: Iterable[QueuePosition]) -> dict[str, int]:
    """Return the number of messages that are not consumed, by the member that has the queues."""
    lags: dict[str, int] = {}
    for position in positions:
        if position.owner is not None:
            lags[position.owner] = lags.get(position.owner, 0) + position.lag
    return lags


def stuck_queues(info: ConsumerRunningInfo, now_wall_ms: int) -> list[str]:
    """Return the queues whose messages a member has, and of which it ended none for some time."""
    return [
        f"{queue.topic} {queue.broker_name}:{queue.queue_id}"
        for queue, state in mq_map_decode(info.mq_table)
        if state.cached_msg_count > 0
        and state.last_consume_timestamp > 0
        and now_wall_ms - state.last_consume_timestamp >= STUCK_MS
    ]


async def _members(client: ClusterClient, group: str, now_wall_ms: int) -> list[Row]:
    try:
        found = await client.admin.consumers(group)
    except EpochError:
        return []  # nobody is there
    subscriptions = {topic: data.sub_string for topic, data in found.subscription_table.items()}

    async def one(each: ClientConnection) -> Row:
        row: Row = {
            "member": each.client_id,
            "address": each.client_addr,
            "language": each.language,
            "version": release_name(each.version),
            "subscriptions": subscriptions,
            "stuck": [],
            "topics": [],
            "problem": None,
        }
        try:
            info = await client.admin.running_info(group, each.client_id)
        except EpochError as error:
            return {**row, "problem": str(error)}
        rates = [
            {
                "topic": topic,
                "ok_tps": round(status.consume_ok_tps, 2),
                "failed_tps": round(status.consume_failed_tps, 2),
                "consume_ms": round(status.consume_rt, 2),
            }
            for topic, status in sorted(info.status_table.items())
        ]
        return {**row, "stuck": stuck_queues(info, now_wall_ms), "topics": rates}

    return list(await asyncio.gather(*map(one, list(found.connection_set)[:MEMBERS_MAX])))
