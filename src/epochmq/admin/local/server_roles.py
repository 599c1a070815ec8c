"""Finds the processes of a local cluster with a role, such as master, by asking the controllers."""

from collections.abc import Sequence

from epochmq.admin.local.local_cluster import LocalCluster, LocalServer
from epochmq.base.errors import EpochError, NotFound
from epochmq.client.aio import Admin

ROLES = ("master", "slave", "controller-leader", "controller-follower")
_TIMEOUT_MS = 1_000


async def find(cluster: LocalCluster, role: str) -> list[LocalServer]:
    """Return the servers for `role`: a role, the name of a server, or `all`.

    Raises `NotFound`, with the possible names, when there is none.
    """
    parts = cluster.servers()
    by_name = {part.name: part for part in parts}
    if role == "all":
        return parts
    if role in by_name:
        return [by_name[role]]
    async with Admin(cluster.namesrv, timeout_ms=_TIMEOUT_MS) as admin:
        if role in ("master", "slave"):
            found = await _brokers(admin, cluster, role)
        elif role in ROLES:
            found = await _controllers(admin, cluster, role)
        else:
            names = ", ".join((*by_name, *ROLES, "all"))
            raise NotFound(f"nothing here is called '{role}'; there is {names}")
    if not found:
        raise NotFound(f"there is no {role} now")
    return found


async def _brokers(admin: Admin, cluster: LocalCluster, role: str) -> list[LocalServer]:
    """Return the master, or the running slave with the smallest number."""
    brokers = cluster.brokers
    master = await master_address(admin, cluster)
    if role == "master":
        return [part for part in brokers if part.address == master]
    others = [part for part in brokers if part.address != master and part.pid is not None]
    return others[:1]


async def master_address(admin: Admin, cluster: LocalCluster) -> str | None:
    """Return the master's address from the controllers; without controllers the only broker's."""
    if not cluster.controllers:
        return cluster.broker
    for part in _living(cluster.controllers):
        try:
            groups = await admin.broker_groups()
            states = await admin.sync_states(part.address, groups)
        except EpochError:
            continue
        return next((s.master_address or None for s in states.values()), None)
    return None


async def _controllers(admin: Admin, cluster: LocalCluster, role: str) -> list[LocalServer]:
    living = _living(cluster.controllers)
    leader = None
    for part in living:
        try:
            leader = leader or await admin.controller_leader(part.address)
        except EpochError:
            continue
    if role == "controller-leader":
        return [part for part in living if part.address == leader]
    return [part for part in living if part.address != leader][:1]


def _living(parts: Sequence[LocalServer]) -> list[LocalServer]:
    return [part for part in parts if part.pid is not None]
