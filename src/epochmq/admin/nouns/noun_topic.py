"""`epochmq topic`: what topics there are, where they are and what is in them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from epochmq.admin.local.name_completion import complete_topics
from epochmq.admin.local.where import namesrv_option
from epochmq.admin.nouns.noun_base import (
    NounGroup,
    Row,
    cluster_option,
    confirm,
    route_of,
    shows,
    yes_option,
)
from epochmq.admin.shared.asking import ask
from epochmq.admin.shared.output import note, output_option, show
from epochmq.base.errors import NotFound, UsageError
from epochmq.model.topic import TABLE_ATTRIBUTE, TABLE_FORMATS

if TYPE_CHECKING:
    from epochmq.client.aio import Admin
    from epochmq.model.topic import TopicConfig


# Noun topic changes --------------------------------------------------------------------------
# `epochmq topic create`, `update`, `delete`.


@click.group(cls=NounGroup, short_help="Create, list, show, change and delete topics.")
def command() -> None:
    """Create, list, show, change and delete topics."""


QUEUES = 8
PERMS = {"rw": 6, "r": 4, "w": 2, "none": 0}
TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "UNSPECIFIED")
_COLUMNS = ("topic", "broker", "read_queues", "write_queues", "perm")

_count = click.IntRange(1, 1024)
perm_option = click.option("--perm", type=click.Choice(list(PERMS)), help="Permission of clients.")
type_option = click.option(
    "--type", "kind", type=click.Choice(TYPES, case_sensitive=False), help="Type of messages."
)

table_option = click.option(
    "--table",
    type=click.Choice([*TABLE_FORMATS, "none"]),
    help="Keep the topic as a table too, by `epochmq lake`; none: no longer.",
)


def _attributes(
    kind: str | None, table: str | None, current: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """Return the changes of attributes, as `Admin.put_topic` expects them."""
    changes = {"+message.type": kind.upper()} if kind else {}
    if table == "none" and TABLE_ATTRIBUTE in current:
        changes[f"-{TABLE_ATTRIBUTE}"] = ""
    elif table not in (None, "none"):
        changes[f"+{TABLE_ATTRIBUTE}"] = str(table)
    return changes


@command.command("create")
@click.argument("topic")
@click.option(
    "--queues", type=_count, default=QUEUES, show_default=True, help="Queues on each broker."
)
@perm_option
@type_option
@table_option
@click.option(
    "--ordered",
    is_flag=True,
    help="Keep the queues of the topic when brokers are added or removed.",
)
@cluster_option
@shows(*_COLUMNS)
async def create(
    admin: "Admin",
    topic: str,
    queues: int,
    perm: str | None,
    kind: str | None,
    table: str | None,
    ordered: bool,
    cluster: str | None,
) -> list[Row]:
    """Create a topic on all masters of a cluster, or of all clusters."""
    from epochmq.admin.messages.position import checked_topic
    from epochmq.model.topic import TopicConfig

    checked_topic(topic)
    if topic in await admin.topics():
        raise UsageError(f"topic {topic} is there already; change it by `epochmq topic update`")
    config = TopicConfig(topic, queues, queues, PERMS[perm or "rw"], order=ordered)
    await admin.create_topic(config, cluster=cluster, attributes=_attributes(kind, table))
    return await _rows(admin, topic, cluster)


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


@command.command("update")
@click.argument("topic", shell_complete=complete_topics)
@click.option("--queues", type=_count, help="Queues to read and to write, on each broker.")
@click.option("--read-queues", type=_count, help="Queues to read.")
@click.option(
    "--write-queues",
    type=_count,
    help="Queues to write; fewer than the queues to read, to shrink a topic.",
)
@perm_option
@type_option
@table_option
@cluster_option
@shows(*_COLUMNS)
async def update(
    admin: "Admin",
    topic: str,
    queues: int | None,
    read_queues: int | None,
    write_queues: int | None,
    perm: str | None,
    kind: str | None,
    table: str | None,
    cluster: str | None,
) -> list[Row]:
    """Change a topic; what is not given stays as each broker has it."""
    reads, writes = read_queues or queues, write_queues or queues
    if (reads, writes, perm, kind, table) == (None, None, None, None, None):
        raise click.UsageError("nothing to change; give --queues, --perm, --type or --table")
    await route_of(admin, topic)
    for address in (await admin.masters(cluster)).values():
        config = await admin.topic_config(address, topic)
        config.read_queue_nums = reads or config.read_queue_nums
        config.write_queue_nums = writes or config.write_queue_nums
        config.perm = PERMS[perm] if perm else config.perm
        attributes = _attributes(kind, table, config.attributes)
        await admin.put_topic(address, config, attributes)
    return await _rows(admin, topic, cluster)


@command.command("delete")
@click.argument(
    "topics", shell_complete=complete_topics, nargs=-1, required=True, metavar="TOPIC..."
)
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


# Noun topic ----------------------------------------------------------------------------------


@command.command("list")
@click.option("--all", "everything", is_flag=True, help="Include system topics.")
@cluster_option
@shows("topic", "brokers", "read_queues", "write_queues", "perm", "type", "ordered")
async def list_topics(admin: "Admin", everything: bool, cluster: str | None) -> list[Row]:
    """List topics with their queues, summed over all brokers."""
    from epochmq.admin.shared.own_topics import is_own, own_names

    rows: dict[str, Row] = {}
    own = await own_names(admin)
    for broker, address in (await admin.masters(cluster)).items():
        for config in (await admin.topic_configs(address)).values():
            if everything or not is_own(config.topic_name, own):
                _add(rows.setdefault(config.topic_name, _empty(config)), broker, config)
    return [rows[name] for name in sorted(rows)]


def _empty(config: "TopicConfig") -> Row:
    from epochmq.model.topic import format_perm

    return {
        "topic": config.topic_name,
        "brokers": [],
        "read_queues": 0,
        "write_queues": 0,
        "perm": format_perm(config.perm),
        "type": config.attributes.get("message.type"),
        "ordered": config.order,
    }


def _add(row: Row, broker: str, config: "TopicConfig") -> None:
    brokers, reads, writes = row["brokers"], row["read_queues"], row["write_queues"]
    assert isinstance(brokers, list)
    assert isinstance(reads, int)
    assert isinstance(writes, int)
    brokers.append(broker)
    row["read_queues"] = reads + config.read_queue_nums
    row["write_queues"] = writes + config.write_queue_nums


@command.command("show")
@click.argument("topic", shell_complete=complete_topics)
@namesrv_option
@output_option
def show_topic(topic: str, namesrv: str, output: str) -> None:
    """Show a topic broker by broker: its configuration and how much is in it."""

    async def work(admin: "Admin") -> tuple[list[Row], list[str]]:
        await route_of(admin, topic)
        rows = [
            await _broker_row(admin, topic, name, address)
            for name, address in (await admin.brokers_of(topic)).items()
        ]
        return rows, await admin.groups_of(topic)

    rows, groups = ask(namesrv, work)
    for row in rows:
        row["groups"] = groups
    columns = ("broker", "address", "read_queues", "write_queues", "perm", "type", "ordered")
    show(output, (*columns, "messages"), rows, title=topic)
    if output != "json" and groups:
        note("consumed by: " + ", ".join(groups))


async def _broker_row(admin: "Admin", topic: str, name: str, address: str) -> Row:
    config = await admin.topic_config(address, topic)
    bounds, _ = await admin.topic_stats_of(address, topic)
    row = _empty(config)
    _add(row, name, config)
    del row["brokers"]
    return {
        "broker": name,
        "address": address,
        **row,
        "attributes": config.attributes,
        "messages": sum(at.max_offset - max(at.min_offset, 0) for at in bounds.values()),
    }


@command.command("route")
@click.argument("topic", shell_complete=complete_topics)
@shows("cluster", "broker", "addresses", "read_queues", "write_queues", "perm", title="topic")
async def show_route(admin: "Admin", topic: str) -> list[Row]:
    """Show which brokers clients go to."""
    from epochmq.admin.shared.operations import route_parts
    from epochmq.model.topic import format_perm

    return [
        {
            "cluster": broker.cluster,
            "broker": broker.broker_name,
            "addresses": {str(k): v for k, v in sorted(broker.broker_addrs.items())},
            "read_queues": queues.read_queue_nums,
            "write_queues": queues.write_queue_nums,
            "perm": format_perm(queues.perm),
        }
        for broker, queues in route_parts(await route_of(admin, topic))
    ]


@command.command("stats")
@click.argument("topic", shell_complete=complete_topics)
@shows("broker", "queue", "min_offset", "max_offset", "messages", "last", title="topic")
async def show_stats(admin: "Admin", topic: str) -> list[Row]:
    """Show each queue: its bounds, and when its last message came."""
    await route_of(admin, topic)
    bounds, _ = await admin.topic_stats(topic)
    return [
        {
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "min_offset": at.min_offset,
            "max_offset": at.max_offset,
            "messages": at.max_offset - max(at.min_offset, 0),
            "last_ms": at.last_update_timestamp or None,
            "last": time_of(at.last_update_timestamp),
        }
        for queue, at in bounds.items()
    ]


def time_of(wall_ms: int) -> str | None:
    """Local time for people; None for never."""
    from epochmq.admin.shared.java_text import moment

    return moment(wall_ms) if wall_ms > 0 else None
