"""`epochmq group create`, `delete`, `reset-offset`."""

from typing import TYPE_CHECKING

import click

from epochmq.admin.asking import ask
from epochmq.admin.nouns.noun_base import (
    all_groups,
    check_group_known,
    cluster_option,
    confirm,
    route_of,
    yes_option,
)
from epochmq.admin.output import output_option, show
from epochmq.admin.where import namesrv_option
from epochmq.base.errors import NotFound, UsageError

if TYPE_CHECKING:
    from epochmq.client.aio import Admin

Row = dict[str, object]


@click.command("create")
@click.argument("group")
@click.option(
    "--retries",
    type=click.IntRange(-1),
    default=16,
    show_default=True,
    help="Tries before a message goes to the dead letters.",
)
@click.option("--ordered", is_flag=True, help="It consumes in order.")
@click.option("--no-broadcast", is_flag=True, help="Its members may not broadcast.")
@click.option("--disabled", is_flag=True, help="It may not consume yet.")
@cluster_option
@namesrv_option
@output_option
def create(
    group: str,
    retries: int,
    ordered: bool,
    no_broadcast: bool,
    disabled: bool,
    cluster: str | None,
    namesrv: str,
    output: str,
) -> None:
    """Create a consumer group on all masters of a cluster, or of all clusters."""
    from epochmq.admin.messages.name_arguments import checked_group
    from epochmq.model.group import SubscriptionGroupConfig

    checked_group(group)
    config = SubscriptionGroupConfig(
        group,
        consume_enable=not disabled,
        consume_broadcast_enable=not no_broadcast,
        consume_message_orderly=ordered,
        retry_max_times=retries,
    )

    async def work(admin: "Admin") -> list[Row]:
        if group in await all_groups(admin):
            raise UsageError(
                f"group {group} is there already; change it by `epochmq mqadmin updateSubGroup`"
            )
        masters = await admin.masters(cluster)
        for address in masters.values():
            await admin.put_group(address, config)
        return [{"group": group, "broker": name} for name in masters]

    show(output, ("group", "broker"), ask(namesrv, work))


@click.command("delete")
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...")
@click.option("--keep-offsets", is_flag=True, help="Keep how far it was.")
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
        from epochmq.model.names import dlq_topic, retry_topic

        rows: list[Row] = []
        for group in groups:
            for name, address in (await admin.masters(cluster)).items():
                await admin.delete_group(address, group, clean_offsets=not keep_offsets)
                rows.append({"deleted": group, "broker": name})
            for topic in (retry_topic(group), dlq_topic(group)):
                await admin.delete_topic(topic, cluster)
        return rows

    ask(namesrv, check)
    confirm(f"Delete {', '.join(groups)}, what waits for a retry, and the dead letters?", yes)
    show(output, ("deleted", "broker"), ask(namesrv, work))


@click.command("reset-offset")
@click.argument("group")
@click.option("-t", "--topic", required=True, help="In this topic.")
@click.option(
    "--to",
    required=True,
    metavar="POSITION",
    help="first, last, an offset (100), so many before the end (-10), so long ago (15m), or a"
    " time (2024-05-01T12:00, @1714564800000).",
)
@namesrv_option
@output_option
def reset_offset(group: str, topic: str, to: str, namesrv: str, output: str) -> None:
    """Move a group to another position in all queues of a topic, members or not."""

    async def work(admin: "Admin") -> list[Row]:
        from epochmq.admin.nouns.resetting import move, position_of

        position = position_of(to, admin.instance.clock.wall_ms())
        await route_of(admin, topic)
        await check_group_known(admin, group)
        moved = await move(admin, group, topic, position)
        if not moved:
            raise NotFound(f"topic {topic} has no queue to move in")
        return [
            {
                "topic": topic,
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "offset": offset,
            }
            for queue, offset in moved.items()
        ]

    show(output, ("topic", "broker", "queue", "offset"), ask(namesrv, work), title=group)
