"""`epochmq group`: consumer groups, how far they are, who is in them."""

import asyncio
from typing import TYPE_CHECKING

import click

from epochmq.admin.asking import ask
from epochmq.admin.nouns import noun_group_changes
from epochmq.admin.nouns.noun_base import NounGroup, all_groups, check_group_known, cluster_option
from epochmq.admin.output import note, output_option, show
from epochmq.admin.progress_bar import Bar
from epochmq.admin.where import namesrv_option

if TYPE_CHECKING:
    from epochmq.client.aio import Admin

Row = dict[str, object]
_AT_ONE_TIME = 8


@click.group(cls=NounGroup, short_help="Consumer groups: progress, members, offsets.")
def command() -> None:
    """Consumer groups: progress, members, offsets."""


command.add_command(noun_group_changes.create)
command.add_command(noun_group_changes.delete)
command.add_command(noun_group_changes.reset_offset)


@command.command("list")
@click.option("--all", "everything", is_flag=True, help="The system's own groups as well.")
@cluster_option
@namesrv_option
@output_option
def list_groups(everything: bool, cluster: str | None, namesrv: str, output: str) -> None:
    """List groups with their members and their lag."""

    async def work(admin: "Admin") -> list[Row]:
        from epochmq.model.names import is_system_group

        names = await all_groups(admin, cluster)
        return await _summaries(admin, [n for n in names if everything or not is_system_group(n)])

    columns = ("group", "members", "type", "model", "version", "tps", "lag")
    show(output, columns, ask(namesrv, work))


async def _summaries(admin: "Admin", groups: list[str]) -> list[Row]:
    """A few at one time: each asks all its brokers."""
    from epochmq.admin.group_figures import summary

    gate = asyncio.Semaphore(_AT_ONE_TIME)
    done = 0

    async def one(group: str) -> Row:
        nonlocal done
        async with gate:
            row = (await summary(admin, group)).row()
        done += 1
        bar.set(done, group)
        return row

    with Bar("asking", total=len(groups)) as bar:
        return await asyncio.gather(*map(one, groups))


@command.command("show")
@click.argument("group")
@namesrv_option
@output_option
def show_group(group: str, namesrv: str, output: str) -> None:
    """Show how a group is configured, broker by broker."""

    async def work(admin: "Admin") -> list[Row]:
        import msgspec

        await check_group_known(admin, group)
        rows: list[Row] = []
        for name, address in (await admin.masters()).items():
            config = (await admin.groups(address)).get(group)
            if config is not None:
                rows.append({"broker": name, **msgspec.to_builtins(config)})
        return rows

    rows = ask(namesrv, work)
    if output == "json":
        show(output, (), rows)
        return
    by_broker = {str(row["broker"]): row for row in rows}
    settings = [key for key in rows[0] if key not in ("broker", "groupName")]
    table = [
        {"setting": key, **{name: row.get(key) for name, row in by_broker.items()}}
        for key in settings
    ]
    show(output, ("setting", *by_broker), table, title=group)


@command.command("lag")
@click.argument("group")
@click.option("-t", "--topic", help="One topic only.")
@namesrv_option
@output_option
def show_lag(group: str, topic: str | None, namesrv: str, output: str) -> None:
    """Show how far a group is in each queue, and which member has it."""

    async def work(admin: "Admin") -> tuple[list[Row], int, int]:
        from epochmq.admin.group_figures import progress

        await check_group_known(admin, group)
        found = await progress(admin, group, topic, owners=True)
        return [position.row() for position in found.positions], found.lag, found.in_flight

    rows, lag, in_flight = ask(namesrv, work)
    columns = ("topic", "broker", "queue", "broker_offset", "consumer_offset", "lag", "member")
    show(output, columns, rows, title=group)
    if output != "json":
        note(f"lag {lag:,}, of these in flight {in_flight:,}")


@command.command("members")
@click.argument("group")
@namesrv_option
@output_option
def show_members(group: str, namesrv: str, output: str) -> None:
    """Show who is in a group now, and what each subscribes to."""

    async def work(admin: "Admin") -> list[Row]:
        from epochmq.base.errors import NotFound, Refused
        from epochmq.client.aio.admin_groups import is_offline
        from epochmq.client.core.release_names import release_name

        await check_group_known(admin, group)
        try:
            found = await admin.consumers(group)
        except NotFound:
            return []
        except Refused as error:
            if is_offline(error):
                return []
            raise
        wanted = {topic: data.sub_string for topic, data in found.subscription_table.items()}
        return [
            {
                "member": each.client_id,
                "address": each.client_addr,
                "language": each.language,
                "version": release_name(each.version),
                "subscriptions": wanted,
            }
            for each in found.connection_set
        ]

    rows = ask(namesrv, work)
    columns = ("member", "address", "language", "version", "subscriptions")
    show(output, columns, rows, title=group)
    if output != "json" and not rows:
        note(f"nobody is in group {group} now")
