"""`epochmq topic`: what topics there are, where they are and what is in them."""

from typing import TYPE_CHECKING

import click

from epochmq.admin.asking import ask
from epochmq.admin.nouns import noun_topic_changes
from epochmq.admin.nouns.noun_base import NounGroup, cluster_option, route_of
from epochmq.admin.output import note, output_option, show
from epochmq.admin.where import namesrv_option

if TYPE_CHECKING:
    from epochmq.client.aio import Admin
    from epochmq.model.topic import TopicConfig

Row = dict[str, object]


@click.group(cls=NounGroup, short_help="Create, list, show, change and delete topics.")
def command() -> None:
    """Create, list, show, change and delete topics."""


command.add_command(noun_topic_changes.create)
command.add_command(noun_topic_changes.update)
command.add_command(noun_topic_changes.delete)


@command.command("list")
@click.option("--all", "everything", is_flag=True, help="The system's own topics as well.")
@cluster_option
@namesrv_option
@output_option
def list_topics(everything: bool, cluster: str | None, namesrv: str, output: str) -> None:
    """List topics with their queues, summed over all brokers."""

    async def work(admin: "Admin") -> list[Row]:
        return await topic_rows(admin, cluster, everything)

    columns = ("topic", "brokers", "read_queues", "write_queues", "perm", "type", "ordered")
    show(output, columns, ask(namesrv, work))


async def topic_rows(admin: "Admin", cluster: str | None, everything: bool) -> list[Row]:
    """One row a topic."""
    rows: dict[str, Row] = {}
    own = await _own_names(admin)
    for broker, address in (await admin.masters(cluster)).items():
        for config in (await admin.topic_configs(address)).values():
            if everything or not is_own(config.topic_name, own):
                _add(rows.setdefault(config.topic_name, _empty(config)), broker, config)
    return [rows[name] for name in sorted(rows)]


async def _own_names(admin: "Admin") -> set[str]:
    """Every cluster and every broker has a topic of its own name."""
    info = await admin.cluster_info()
    return set(info.cluster_addr_table) | set(info.broker_addr_table)


def is_own(topic: str, own: set[str]) -> bool:
    """Whether a topic is the system's: retries, dead letters, templates."""
    from epochmq.model import names

    if topic in own or names.is_system_topic(topic):
        return True
    is_reply = topic.endswith(names.REPLY_TOPIC_SUFFIX)
    return is_reply or names.is_retry_topic(topic) or names.is_dlq_topic(topic)


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
@click.argument("topic")
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
@click.argument("topic")
@namesrv_option
@output_option
def show_route(topic: str, namesrv: str, output: str) -> None:
    """Show which brokers clients go to."""

    async def work(admin: "Admin") -> list[Row]:
        from epochmq.model.topic import format_perm

        route = await route_of(admin, topic)
        queues = {data.broker_name: data for data in route.queue_datas}
        return [
            {
                "cluster": broker.cluster,
                "broker": broker.broker_name,
                "addresses": {str(k): v for k, v in sorted(broker.broker_addrs.items())},
                "read_queues": queues[broker.broker_name].read_queue_nums,
                "write_queues": queues[broker.broker_name].write_queue_nums,
                "perm": format_perm(queues[broker.broker_name].perm),
            }
            for broker in sorted(route.broker_datas, key=lambda data: data.broker_name)
            if broker.broker_name in queues
        ]

    columns = ("cluster", "broker", "addresses", "read_queues", "write_queues", "perm")
    show(output, columns, ask(namesrv, work), title=topic)


@command.command("stats")
@click.argument("topic")
@namesrv_option
@output_option
def show_stats(topic: str, namesrv: str, output: str) -> None:
    """Show each queue: its bounds, and when its last message came."""

    async def work(admin: "Admin") -> list[Row]:
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

    columns = ("broker", "queue", "min_offset", "max_offset", "messages", "last")
    show(output, columns, ask(namesrv, work), title=topic)


def time_of(wall_ms: int) -> str | None:
    """Local time for people; None for never."""
    from epochmq.admin.mqadmin.java_text import moment

    return moment(wall_ms) if wall_ms > 0 else None
