"""What the page of the audit log shows of the brokers."""

import asyncio

from epochmq.admin.dashboard.cluster_client import ClusterClient
from epochmq.admin.dashboard.paging import Row
from epochmq.base.errors import EpochError

ROWS_MAX = 200


async def latest_changes(client: ClusterClient) -> list[Row]:
    """Return the latest lines of the audit logs of all brokers, the newest first.

    Brokers that do not answer, and RocketMQ's, are left out.
    """
    groups = await client.admin.broker_groups()
    addresses = sorted({a for data in groups.values() for a in data.broker_addrs.values()})

    async def of(address: str) -> list[Row]:
        try:
            entries = await client.admin.audit_log(address)
        except EpochError:
            return []
        return [
            {
                "wall_ms": each.wall_ms,
                "broker": address,
                "user": each.user,
                "from": each.peer,
                "action": f"{each.request} {each.resources}",
                "result": each.result,
            }
            for each in entries
        ]

    found = [row for rows in await asyncio.gather(*map(of, addresses)) for row in rows]
    return sorted(found, key=lambda row: int(str(row["wall_ms"])), reverse=True)[:ROWS_MAX]
