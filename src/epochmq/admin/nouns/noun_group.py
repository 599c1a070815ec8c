"""`epochmq group`: consumer groups, how far they are, who is in them."""

import asyncio
import fnmatch
import sys
import time
from typing import TYPE_CHECKING

import click

from epochmq.admin.local.name_completion import complete_groups, complete_topics
from epochmq.admin.local.where import namesrv_option
from epochmq.admin.messages.position import PositionKind, StartPosition, parse
from epochmq.admin.nouns.noun_base import (
    NounGroup,
    Row,
    all_groups,
    check_group_known,
    cluster_option,
    confirm,
    route_of,
    shows,
    yes_option,
)
from epochmq.admin.shared.asking import ask
from epochmq.admin.shared.exits import nearest
from epochmq.admin.shared.output import JSON, Bar, note, output_option, show
from epochmq.base.errors import EpochError, NotFound, Refused, UsageError

if TYPE_CHECKING:
    from epochmq.client.aio import Admin
    from epochmq.model.topic import MessageQueue


# Resetting -----------------------------------------------------------------------------------
# Moving a group: to a time by its brokers, to offsets queue by queue.


def position_of(text: str, now_wall_ms: int) -> StartPosition:
    """What `--to` says, see `messages.position`."""
    try:
        return parse(text, now_wall_ms)
    except UsageError as error:
        raise UsageError(str(error).replace("--from", "--to")) from None


async def move(
    admin: "Admin", group: str, topic: str, position: StartPosition
) -> "dict[MessageQueue, int]":
    """Move `group`; the new offset of every queue."""
    if position.kind in (PositionKind.OFFSET, PositionKind.BACK):
        return await _move_to_offsets(admin, group, topic, position)
    from epochmq.admin.shared.operations import reset_to_time
    from epochmq.client.aio.admin_progress import TO_END

    wall_ms = {PositionKind.FIRST: 0, PositionKind.LAST: TO_END}.get(position.kind, position.value)
    moved = await reset_to_time(admin, group, topic, wall_ms)
    return {m.queue: m.reset_offset for m in moved} if isinstance(moved, list) else moved


async def _move_to_offsets(
    admin: "Admin", group: str, topic: str, position: StartPosition
) -> "dict[MessageQueue, int]":
    """Offsets outside of a queue are taken to its nearer end."""
    moved: dict[MessageQueue, int] = {}
    for address in (await admin.brokers_of(topic)).values():
        bounds, _ = await admin.topic_stats_of(address, topic)
        for queue in sorted(bounds):
            low, high = max(bounds[queue].min_offset, 0), bounds[queue].max_offset
            wanted = high - position.value if position.kind is PositionKind.BACK else position.value
            target = min(max(wanted, low), high)
            await admin.reset_queue(address, group, topic, queue.queue_id, target)
            moved[queue] = target
    return moved


async def offsets_at(
    admin: "Admin", topic: str, position: StartPosition
) -> "dict[MessageQueue, int]":
    """Return where `move` would move a group."""
    from epochmq.client.aio import PullConsumer

    found: dict[MessageQueue, int] = {}
    servers = ";".join(admin.name_servers)
    async with PullConsumer(servers, "epochmq-dry-run") as consumer:
        for queue in await consumer.queues(topic):
            low, high = await consumer.min_offset(queue), await consumer.max_offset(queue)
            match position.kind:
                case PositionKind.FIRST:
                    wanted = low
                case PositionKind.LAST:
                    wanted = high
                case PositionKind.OFFSET:
                    wanted = position.value
                case PositionKind.BACK:
                    wanted = high - position.value
                case _:
                    wanted = await consumer.offset_at(queue, position.value)
            found[queue] = min(max(wanted, low), high)
    return found


# Noun group changes --------------------------------------------------------------------------
# `epochmq group create`, `delete`, `reset-offset`.


@click.group(cls=NounGroup, short_help="Consumer groups: progress, members, offsets.")
def command() -> None:
    """Consumer groups: progress, members, offsets."""


@command.command("create")
@click.argument("group")
@click.option(
    "--retries",
    type=click.IntRange(-1),
    default=16,
    show_default=True,
    help="Retries of a message before it becomes a dead letter.",
)
@click.option("--ordered", is_flag=True, help="The group consumes in order.")
@click.option("--no-broadcast", is_flag=True, help="Members of the group may not broadcast.")
@click.option("--disabled", is_flag=True, help="The group may not consume yet.")
@cluster_option
@shows("group", "broker")
async def create(
    admin: "Admin",
    group: str,
    retries: int,
    ordered: bool,
    no_broadcast: bool,
    disabled: bool,
    cluster: str | None,
) -> list[Row]:
    """Create a consumer group on all masters of a cluster, or of all clusters."""
    from epochmq.admin.messages.position import checked_group
    from epochmq.model.group import SubscriptionGroupConfig

    checked_group(group)
    config = SubscriptionGroupConfig(
        group,
        consume_enable=not disabled,
        consume_broadcast_enable=not no_broadcast,
        consume_message_orderly=ordered,
        retry_max_times=retries,
    )
    if group in await all_groups(admin):
        raise UsageError(
            f"group {group} is there already; change it by `epochmq mqadmin updateSubGroup`"
        )
    masters = await admin.masters(cluster)
    for address in masters.values():
        await admin.put_group(address, config)
    return [{"group": group, "broker": name} for name in masters]


@command.command("delete")
@click.argument(
    "groups", shell_complete=complete_groups, nargs=-1, required=True, metavar="GROUP..."
)
@click.option("--keep-offsets", is_flag=True, help="Keep the committed offsets of the group.")
@yes_option
@cluster_option
@namesrv_option
@output_option
def delete(
    groups: tuple[str, ...],
    keep_offsets: bool,
    yes: bool,
    cluster: str | None,
    namesrv: str,
    output: str,
) -> None:
    """Delete consumer groups with their offsets, retries and dead letters."""

    async def check(admin: "Admin") -> None:
        for group in groups:
            await check_group_known(admin, group)

    async def work(admin: "Admin") -> list[Row]:
        from epochmq.admin.shared.operations import delete_group

        rows: list[Row] = []
        for group in groups:
            deleted = delete_group(admin, group, cluster, clean_offsets=not keep_offsets)
            rows += [{"deleted": group, "broker": name} async for name, _ in deleted]
        return rows

    ask(namesrv, check)
    confirm(f"Delete {', '.join(groups)}, what waits for a retry, and the dead letters?", yes)
    show(output, ("deleted", "broker"), ask(namesrv, work))


@command.command("reset-offset")
@click.argument("group", shell_complete=complete_groups)
@click.option(
    "-t",
    "--topic",
    shell_complete=complete_topics,
    required=True,
    help="Topic whose offsets are reset.",
)
@click.option(
    "--to",
    required=True,
    metavar="POSITION",
    help="first, last, an offset (100), so many before the end (-10), so long ago (15m), or a"
    " time (2024-05-01T12:00, @1714564800000).",
)
@click.option("--dry-run", is_flag=True, help="Only show where the group would go.")
@shows("topic", "broker", "queue", "offset", title="group")
async def reset_offset(admin: "Admin", group: str, topic: str, to: str, dry_run: bool) -> list[Row]:
    """Move a group to another position in all queues of a topic, members or not."""
    position = position_of(to, admin.instance.clock.wall_ms())
    await route_of(admin, topic)
    await check_group_known(admin, group)
    if dry_run:
        moved = await offsets_at(admin, topic, position)
        note("dry run: nothing has changed")
    else:
        moved = await move(admin, group, topic, position)
    if not moved:
        raise NotFound(f"topic {topic} has no queue to move in")
    return [
        {"topic": topic, "broker": at.broker_name, "queue": at.queue_id, "offset": offset}
        for at, offset in moved.items()
    ]


# Noun group ----------------------------------------------------------------------------------


_AT_ONE_TIME = 8


@command.command("list")
@click.argument("pattern", default="*", shell_complete=complete_groups)
@click.option("--all", "everything", is_flag=True, help="Include system groups.")
@click.option(
    "--sort",
    type=click.Choice(("group", "lag", "age", "tps", "members")),
    default="group",
    show_default=True,
    help="Numbers: the largest first.",
)
@click.option("--min-lag", type=click.IntRange(0), default=0, help="Only groups with so much lag.")
@click.option(
    "--watch",
    type=click.FloatRange(0.1),
    metavar="SECONDS",
    help="Show the list again after so many seconds, until Ctrl-C.",
)
@cluster_option
@namesrv_option
@output_option
def list_groups(
    pattern: str,
    everything: bool,
    sort: str,
    min_lag: int,
    watch: float | None,
    cluster: str | None,
    namesrv: str,
    output: str,
) -> None:
    """List groups whose names match PATTERN (such as 'billing*'), with their members and lag.

    AGE_S is the age in seconds of the oldest message that the group has not consumed.
    """

    async def work(admin: "Admin") -> None:
        while True:
            rows = await _list_rows(admin, pattern, everything, cluster)
            rows = [row for row in rows if int(str(row["lag"])) >= min_lag]
            if sort != "group":
                key = "age_s" if sort == "age" else sort
                rows.sort(key=lambda row: float(str(row[key] or 0)), reverse=True)
            if watch is not None and output != JSON:
                click.clear()
            columns = ("group", "members", "type", "model", "version", "tps", "lag", "age_s")
            show(output, columns, rows)
            if watch is None:
                return
            sys.stdout.flush()
            await _pause(watch)

    ask(namesrv, work)


_pause = asyncio.sleep
"""Between two lists of `--watch`."""


async def _list_rows(
    admin: "Admin", pattern: str, everything: bool, cluster: str | None
) -> list[Row]:
    """Return one row for each group, in the order of their names."""
    from epochmq.admin.shared.group_figures import summary
    from epochmq.model.names import is_system_group

    names = fnmatch.filter(await all_groups(admin, cluster), pattern)
    groups = [name for name in names if everything or not is_system_group(name)]
    # A few at one time: each asks all its brokers.
    gate = asyncio.Semaphore(_AT_ONE_TIME)
    done = 0

    async def one(group: str) -> Row:
        nonlocal done
        async with gate:
            found = await summary(admin, group)
        row, oldest = found.row(), found.oldest_wall_ms
        row["age_s"] = round(max(time.time() * 1000 - oldest, 0) / 1000, 1) if oldest else None
        done += 1
        bar.set(done, group)
        return row

    with Bar("asking", total=len(groups)) as bar:
        return await asyncio.gather(*map(one, groups))


async def _member_ids(admin: "Admin", group: str) -> list[str]:
    """Return the client ids of the members of a group now."""
    from epochmq.client.aio.admin_groups import is_offline

    try:
        return [each.client_id for each in (await admin.consumers(group)).connection_set]
    except NotFound:
        return []
    except Refused as error:
        if is_offline(error):
            return []
        raise


@command.command("stacks")
@click.argument("group", shell_complete=complete_groups)
@click.argument("member", required=False)
@namesrv_option
@output_option
def show_stacks(group: str, member: str | None, namesrv: str, output: str) -> None:
    """Show what the members of a group are doing now: the stacks of their listeners."""

    async def work(admin: "Admin") -> list[Row]:
        await check_group_known(admin, group)
        members = await _member_ids(admin, group)
        if member is not None and member not in members:
            raise NotFound(f"group {group} has no member '{member}'{nearest(member, members)}")
        rows: list[Row] = []
        for client_id in [member] if member is not None else sorted(members):
            try:
                info = await admin.running_info(group, client_id, stacks=True)
            except EpochError as error:
                rows.append({"member": client_id, "stacks": None, "problem": str(error)})
                continue
            text = info.jstack if isinstance(info.jstack, str) else None
            rows.append({"member": client_id, "stacks": text, "problem": None})
        return rows

    rows = ask(namesrv, work)
    if output == "json":
        show(output, (), rows)
        return
    for row in rows:
        click.echo(f"{row['member']}")
        click.echo(f"{row['problem'] or row['stacks'] or 'this client does not tell its stacks'}\n")
    if not rows:
        note(f"nobody is in group {group} now")


@command.command("show")
@click.argument("group", shell_complete=complete_groups)
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
@click.argument("group", shell_complete=complete_groups)
@click.option("-t", "--topic", shell_complete=complete_topics, help="One topic only.")
@namesrv_option
@output_option
def show_lag(group: str, topic: str | None, namesrv: str, output: str) -> None:
    """Show how far a group is in each queue, and which member has it."""

    async def work(admin: "Admin") -> tuple[list[Row], int, int]:
        from epochmq.admin.shared.group_figures import progress

        await check_group_known(admin, group)
        found = await progress(admin, group, topic, owners=True)
        return [position.row() for position in found.positions], found.lag, found.in_flight

    rows, lag, in_flight = ask(namesrv, work)
    columns = ("topic", "broker", "queue", "broker_offset", "consumer_offset", "lag", "member")
    show(output, columns, rows, title=group)
    if output != "json":
        note(f"lag {lag:,}, of these in flight {in_flight:,}")


@command.command("members")
@click.argument("group", shell_complete=complete_groups)
@namesrv_option
@output_option
def show_members(group: str, namesrv: str, output: str) -> None:
    """Show who is in a group now, and what each subscribes to."""

    async def work(admin: "Admin") -> list[Row]:
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
