"""`epochmq topic create`, `update`, `delete`."""

from typing import TYPE_CHECKING

import click

from epochmq.admin.asking import ask
from epochmq.admin.nouns.noun_base import cluster_option, confirm, route_of, yes_option
from epochmq.admin.output import output_option, show
from epochmq.admin.where import namesrv_option
from epochmq.base.errors import NotFound, UsageError

if TYPE_CHECKING:
    from epochmq.client.aio import Admin

Row = dict[str, object]
QUEUES = 8
PERMS = {"rw": 6, "r": 4, "w": 2, "none": 0}
TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "UNSPECIFIED")
_COLUMNS = ("topic", "broker", "read_queues", "write_queues", "perm")

_count = click.IntRange(1, 1024)
perm_option = click.option("--perm", type=click.Choice(list(PERMS)), help="What clients may do.")
type_option = click.option(
    "--type", "kind", type=click.Choice(TYPES, case_sensitive=False), help="Kind of messages."
)


@click.command("create")
@click.argument("topic")
@click.option("--queues", type=_count, default=QUEUES, show_default=True, help="On each broker.")
@perm_option
@type_option
@click.option("--ordered", is_flag=True, help="Keep its queues when brokers come and go.")
@cluster_option
@namesrv_option
@output_option
def create(
    topic: str,
    queues: int,
    perm: str | None,
    kind: str | None,
    ordered: bool,
    cluster: str | None,
    namesrv: str,
    output: str,
) -> None:
    """Create a topic on all masters of a cluster, or of all clusters."""
    from epochmq.admin.messages.name_arguments import checked_topic
    from epochmq.model.topic import TopicConfig

    checked_topic(topic)

    async def work(admin: "Admin") -> list[Row]:
        if topic in await admin.topics():
            raise UsageError(f"topic {topic} is there already; change it by `epochmq topic update`")
        config = TopicConfig(topic, queues, queues, PERMS[perm or "rw"], order=ordered)
        attributes = {"+message.type": kind.upper()} if kind else {}
        await admin.create_topic(config, cluster=cluster, attributes=attributes)
        return await _rows(admin, topic, cluster)

    show(output, _COLUMNS, ask(namesrv, work))


async def _rows(admin: "Admin", topic: str, cluster: str | None) -> list[Row]:
    """What brokers have now, not what they were asked for."""
    from epochmq.model.topic import format_perm

    rows: list[Row] = []
    for name, address in (await admin.masters(cluster)).items():
        config = await admin.topic_config(address, topic)
        rows.append(
            {
                "topic": topic,
                "broker": name,
                "read_queues": config.read_queue_nums,
                "write_queues": config.write_queue_nums,
                "perm": format_perm(config.perm),
                "ordered": config.order,
                "attributes": config.attributes,
            }
        )
    return rows


@click.command("update")
@click.argument("topic")
@click.option("--queues", type=_count, help="To read and to write, on each broker.")
@click.option("--read-queues", type=_count, help="To read only.")
@click.option("--write-queues", type=_count, help="To write only: fewer, to shrink a topic.")
@perm_option
@type_option
@cluster_option
@namesrv_option
@output_option
def update(
    topic: str,
    queues: int | None,
    read_queues: int | None,
    write_queues: int | None,
    perm: str | None,
    kind: str | None,
    cluster: str | None,
    namesrv: str,
    output: str,
) -> None:
    """Change a topic; what is not given stays as each broker has it."""
    reads, writes = read_queues or queues, write_queues or queues
    if (reads, writes, perm, kind) == (None, None, None, None):
        raise click.UsageError("nothing to change; give --queues, --perm or --type")

    async def work(admin: "Admin") -> list[Row]:
        await route_of(admin, topic)
        for address in (await admin.masters(cluster)).values():
            config = await admin.topic_config(address, topic)
            config.read_queue_nums = reads or config.read_queue_nums
            config.write_queue_nums = writes or config.write_queue_nums
            config.perm = PERMS[perm] if perm else config.perm
            attributes = {"+message.type": kind.upper()} if kind else {}
            await admin.put_topic(address, config, attributes)
        return await _rows(admin, topic, cluster)

    show(output, _COLUMNS, ask(namesrv, work))


@click.command("delete")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@yes_option
@cluster_option
@namesrv_option
@output_option
def delete(
    topics: tuple[str, ...], yes: bool, cluster: str | None, namesrv: str, output: str
) -> None:
    """Delete topics with all their messages."""

    async def count(admin: "Admin") -> int:
        total = 0
        for topic in topics:
            await route_of(admin, topic)
            try:
                bounds, _ = await admin.topic_stats(topic)
            except NotFound:
                continue
            total += sum(at.max_offset - max(at.min_offset, 0) for at in bounds.values())
        return total

    async def work(admin: "Admin") -> list[Row]:
        rows: list[Row] = []
        for topic in topics:
            rows.append({"deleted": topic, "brokers": await admin.delete_topic(topic, cluster)})
        return rows

    messages = ask(namesrv, count)
    confirm(f"Delete {', '.join(topics)} with {messages:,} messages?", yes)
    show(output, ("deleted", "brokers"), ask(namesrv, work))
