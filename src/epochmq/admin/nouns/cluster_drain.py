"""Drains a broker group before maintenance: producers leave it, consumers empty it."""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from epochmq.admin.shared.exits import Unhealthy, nearest
from epochmq.admin.shared.own_topics import is_own, own_names
from epochmq.base.errors import EpochError, NotFound, NotReachable, UsageError
from epochmq.model.names import is_system_group
from epochmq.model.topic import PERM_READ, PERM_READ_WRITE, PERM_WRITE

if TYPE_CHECKING:
    from epochmq.client.aio import Admin
    from epochmq.model.topic import BrokerData

PERMISSION = "brokerPermission"
LOOK_S = 0.5
"""Pause (s) between two looks at the broker group."""
QUIET_S = 35.0
"""Time (s) without a new message after which the group counts as drained.

Clients ask for new routes every 30 s; the brokers of an old route accept their messages until then.
"""
ROUTES_MAX = 100
"""Number of topics whose routes are looked at: the broker registers all of them in one request."""

Progress = Callable[[int, list[str]], None]
"""Called with the number of messages that wait, and the groups that have not read them."""


async def drain_group(
    admin: "Admin", group: str, timeout_s: float, progress: Progress, *, online_only: bool
) -> dict[str, str]:
    """Make a broker group read-only, and wait until consumers have read what it has.

    Args:
        admin: the cluster.
        group: name of the broker group.
        timeout_s: seconds to wait for the consumers.
        progress: called after each look at their progress.
        online_only: whether groups without members are left out.

    Returns:
        The address of each broker of the group by its id.

    Raises:
        UsageError: producers would have no other broker group for a topic.
        Unhealthy: consumers had not read everything in time; the group stays read-only.
    """
    data = await _brokers_of(admin, group)
    topics = await _check_topics(admin, group, data)
    done: set[str] = set()
    until = time.monotonic() + timeout_s
    count, quiet_since = -1, 0.0
    while True:
        now = time.monotonic()
        data = await _brokers_of(admin, group)  # a replica may have joined since
        await _set_permission(admin, data, PERM_READ, done)
        master = data.broker_addrs[0]
        waiting = await _waiting(admin, master, online_only=online_only)
        progress(sum(waiting.values()), sorted(waiting))
        stored = await _stored(admin, master)
        if stored != count or await _is_routed(admin, group, topics):
            count, quiet_since = stored, now
        if not waiting and now - quiet_since >= QUIET_S:
            return _addresses(data)
        if now > until:
            rows = ", ".join(f"{name} ({lag:,})" for name, lag in sorted(waiting.items()))
            reason = (
                f"consumers have not read everything: {rows}"
                if rows
                else ("messages still come from clients that have not asked for a new route")
            )
            raise Unhealthy(
                f"{group} is read-only now, but {reason}; run the command again to go on waiting,"
                " or with --undo"
            )
        await asyncio.sleep(LOOK_S)


async def undo_drain(admin: "Admin", group: str) -> dict[str, str]:
    """Make a broker group writable again; returns the address of each broker by its id."""
    data = await _brokers_of(admin, group)
    await _set_permission(admin, data, PERM_READ_WRITE, set())
    return _addresses(data)


async def _brokers_of(admin: "Admin", group: str) -> "BrokerData":
    groups = await admin.broker_groups()
    if group not in groups:
        raise NotFound(f"there is no broker group '{group}'{nearest(group, groups)}")
    if 0 not in groups[group].broker_addrs:
        raise NotReachable(f"broker group {group} has no master now")
    return groups[group]


def _addresses(data: "BrokerData") -> dict[str, str]:
    return {str(number): address for number, address in sorted(data.broker_addrs.items())}


async def _check_topics(admin: "Admin", group: str, data: "BrokerData") -> list[str]:
    """Return the topics; raises `UsageError` if one is in no other broker group of the cluster."""
    masters = await admin.masters(data.cluster)
    system = await own_names(admin)
    own = await _topics_of(admin, masters.pop(group), system)
    elsewhere: set[str] = set()
    for address in masters.values():
        elsewhere |= await _topics_of(admin, address, system)
    if not masters:
        raise UsageError(
            f"{group} is the only broker group of {data.cluster} with a master: producers would"
            " have no other one. To stop one replica of it, use `epochmq cluster move-master`"
        )
    if only := sorted(own - elsewhere):
        shown = ", ".join(only[:5]) + (f" and {len(only) - 5} more" if len(only) > 5 else "")
        raise UsageError(
            f"no other broker group has the topics {shown}: create them there first, so that"
            " producers can go on (`epochmq topic create`)"
        )
    return sorted(own)


async def _topics_of(admin: "Admin", address: str, own: set[str]) -> set[str]:
    return {name for name in await admin.topic_configs(address) if not is_own(name, own)}


async def _set_permission(
    admin: "Admin", data: "BrokerData", permission: int, done: set[str]
) -> None:
    """Change all brokers but those in `done`, the slaves first: one may be the master soon."""
    for number in sorted(data.broker_addrs, reverse=True):
        address = data.broker_addrs[number]
        if address not in done:
            await admin.update_broker_config(address, {PERMISSION: str(permission)})
            done.add(address)


async def _is_routed(admin: "Admin", group: str, topics: list[str]) -> bool:
    """Return whether a name server still leads producers to the group."""
    for topic in topics[:ROUTES_MAX]:
        try:
            route = await admin.route(topic)
        except NotFound:
            continue
        if any(q.broker_name == group and q.perm & PERM_WRITE for q in route.queue_datas):
            return True
    return False


async def _stored(admin: "Admin", address: str) -> int:
    """Return the number of all messages that the broker at `address` has stored."""
    figures = await admin.runtime_info(address)
    return int(figures.get("msgPutTotalTodayNow", "0"))


async def _waiting(admin: "Admin", address: str, *, online_only: bool) -> dict[str, int]:
    """Return the number of messages at the master that each consumer group has not read."""
    found: dict[str, int] = {}
    for name in await admin.groups(address):
        if is_system_group(name):
            continue
        try:
            if online_only and not (await admin.consumers(name)).connection_set:
                continue
            table, _ = await admin.progress_at(address, name)
        except NotReachable:
            raise
        except EpochError:
            continue  # it never consumed here, or nobody is there
        lag = sum(max(at.broker_offset - at.consumer_offset, 0) for at in table.values())
        if lag:
            found[name] = lag
    return found
