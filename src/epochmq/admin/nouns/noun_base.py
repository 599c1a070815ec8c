"""The common parts of the commands by noun: groups, confirmations, similar names."""

import functools
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from epochmq.admin.local.where import namesrv_option
from epochmq.admin.shared.asking import ask
from epochmq.admin.shared.exits import FAILED, nearest
from epochmq.admin.shared.output import note, output_option, show
from epochmq.base.errors import NotFound, UsageError

if TYPE_CHECKING:
    from epochmq.client.aio import Admin
    from epochmq.model.group import SubscriptionGroupConfig
    from epochmq.model.topic import TopicRouteData

Row = dict[str, object]
Work = Callable[..., "Awaitable[list[Row]]"]
"""`async def work(admin, **values of the parameters)`; returns the rows to show."""

yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
cluster_option = click.option("-c", "--cluster", metavar="NAME", help="One cluster only.")


class NounGroup(click.Group):
    """The verbs of a noun; suggests the nearest one for a mistyped verb."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.commands and not name.startswith("-"):
            raise click.UsageError(f"no command '{name}'{nearest(name, self.commands)}", ctx)
        return super().resolve_command(ctx, args)


def shows(*columns: str, title: str = "") -> Callable[[Work], Callable[..., None]]:
    """Return a decorator that makes a coroutine a command: it gets an `Admin` and returns rows.

    `columns` are the table's columns. The value of the parameter `title` is shown above the table.
    """

    def decorate(work: Work) -> Callable[..., None]:
        @namesrv_option
        @output_option
        @functools.wraps(work)
        def callback(namesrv: str, output: str, **values: object) -> None:
            rows = ask(namesrv, lambda admin: work(admin, **values))
            show(output, columns, rows, title=str(values.get(title, "")))

        return callback

    return decorate


def confirm(question: str, yes: bool) -> None:
    """Ask for confirmation unless `yes`; ends the command on a no.

    Raises `UsageError` when there is no terminal.
    """
    if yes:
        return
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise UsageError("nobody is there to say yes; add --yes") from None
    if not agreed:
        note("everything is left as it is")
        raise click.exceptions.Exit(FAILED)


async def route_of(admin: "Admin", topic: str) -> "TopicRouteData":
    """Return the route of `topic`; raises `NotFound` with the most similar topic."""
    try:
        return await admin.route(topic)
    except NotFound:
        near = nearest(topic, await admin.topics())
        raise NotFound(f"there is no topic '{topic}'{near}") from None


async def all_groups(
    admin: "Admin", cluster: str | None = None
) -> dict[str, "SubscriptionGroupConfig"]:
    """Return the configurations of all consumer groups by name, sorted; the last broker's wins."""
    found: dict[str, SubscriptionGroupConfig] = {}
    for address in (await admin.masters(cluster)).values():
        found.update(await admin.groups(address))
    return dict(sorted(found.items()))


async def masters_of(admin: "Admin", cluster: str | None) -> dict[str, str]:
    """Return the address of each master; raises `NotFound` if there is none."""
    found = await admin.masters(cluster)
    if not found:
        raise NotFound("no master is registered now")
    return found


async def check_group_known(admin: "Admin", group: str) -> None:
    """Raise `NotFound`, with the most similar group, if the group does not exist."""
    groups = await all_groups(admin)
    if group not in groups:
        raise NotFound(f"there is no group '{group}'{nearest(group, groups)}")
