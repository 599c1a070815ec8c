"""Completes names in a shell: topics and groups from the cluster, roles and options from here."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from epochmq.admin.local.where import DEV_DIRECTORY, default_namesrv
from epochmq.admin.shared.asking import use_connection_options
from epochmq.base.errors import EpochError

if TYPE_CHECKING:
    from epochmq.client.aio import Admin

TIMEOUT_S = 1.0
"""A shell that waits longer looks hung; then there is nothing to choose from."""


def complete_topics(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the topics whose names begin with `incomplete`, without RocketMQ's own."""

    async def names(admin: "Admin") -> Iterable[str]:
        from epochmq.admin.shared.own_topics import is_own, own_names

        own = await own_names(admin)
        return [name for name in await admin.topics() if not is_own(name, own)]

    return _matching(context, names, incomplete)


def complete_groups(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the consumer groups whose names begin with `incomplete`, without RocketMQ's own."""

    async def names(admin: "Admin") -> Iterable[str]:
        from epochmq.model.names import is_system_group

        every: set[str] = set()
        for address in (await admin.masters()).values():
            every.update(await admin.groups(address))
        return [name for name in every if not is_system_group(name)]

    return _matching(context, names, incomplete)


def complete_roles(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the roles, and the servers of this directory's cluster, that begin so."""
    from epochmq.admin.local.local_cluster import LocalCluster
    from epochmq.admin.local.server_roles import ROLES

    directory = (context.parent or context).params.get("directory") or DEV_DIRECTORY
    try:
        names = [part.name for part in LocalCluster(Path(directory)).servers()]
    except (EpochError, OSError):
        names = []
    return [name for name in (*ROLES, "all", *names) if name.startswith(incomplete)]


def complete_options(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the options of a broker whose names begin with `incomplete`."""
    return [key for key, _ in _broker_options() if key.startswith(incomplete)]


def complete_settings(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return KEY= for each option of a broker that may change while it runs."""
    return [
        f"{key}=" for key, mutable in _broker_options() if mutable and key.startswith(incomplete)
    ]


def _broker_options() -> list[tuple[str, bool]]:
    """Return (key, whether it may change while a broker runs) of each option, in order."""
    from epochmq.base.options import describe
    from epochmq.broker.config.options import BrokerOptions

    return sorted((row.key, row.mutable) for row in describe(BrokerOptions))


def _matching(
    context: click.Context, names: "Callable[[Admin], Awaitable[Iterable[str]]]", incomplete: str
) -> list[str]:
    """Return the names that begin with `incomplete`; none if the cluster does not answer."""
    from epochmq.client.aio import Admin
    from epochmq.runtime.main import run

    async def connected() -> Iterable[str]:
        async with asyncio.timeout(TIMEOUT_S), Admin(namesrv) as admin:
            return await names(admin)

    try:
        with context.scope(cleanup=False):
            use_connection_options(**context.find_root().params)
            namesrv = context.params.get("namesrv") or default_namesrv()
            found = run(connected())
    except (EpochError, OSError, TimeoutError):
        return []
    return sorted(name for name in found if name.startswith(incomplete))
