"""`updateTopic`, `deleteTopic`."""

from typing import TYPE_CHECKING

import click
import msgspec

from epochmq.admin.mqadmin.running import Out, mq_command, one_of, opt
from epochmq.admin.shared.java_text import fields_of
from epochmq.base.errors import NotFound, UsageError
from epochmq.model.topic import TopicConfig, format_perm

if TYPE_CHECKING:
    from epochmq.client.aio import Admin

QUEUES = 8
_QUEUE_COUNT = click.IntRange(1, 1024)
_UNIT, _UNIT_SUB = 1, 2


@mq_command(
    "updateTopic",
    opt("b", "brokerAddr", "On one broker, HOST:PORT."),
    opt("c", "clusterName", "On all masters of a cluster."),
    opt("t", "topic", "The topic.", required=True),
    opt("r", "readQueueNums", "Queues to read from.", _QUEUE_COUNT, default=QUEUES),
    opt("w", "writeQueueNums", "Queues to write to.", _QUEUE_COUNT, default=QUEUES),
    opt("p", "perm", "2 write, 4 read, 6 both.", click.IntRange(0, 7), default=6),
    opt("o", "order", "Ordered topic: true or false.", bool, default="false"),
    opt("u", "unit", "Unit topic: true or false.", bool, default="false"),
    opt("s", "hasUnitSub", "Unit subscriptions: true or false.", bool, default="false"),
    opt("a", "attributes", "Changes: +name=value sets, -name removes; joined by commas."),
)
async def update_topic(
    admin: "Admin",
    out: Out,
    broker_addr: str | None,
    cluster_name: str | None,
    topic: str,
    read_queue_nums: int,
    write_queue_nums: int,
    perm: int,
    order: bool,
    unit: bool,
    has_unit_sub: bool,
    attributes: str | None,
) -> None:
    """Create or change a topic."""
    one_of(broker_addr, cluster_name, "-b BROKERADDR, -c CLUSTERNAME")
    config = TopicConfig(
        topic,
        read_queue_nums,
        write_queue_nums,
        perm,
        topic_sys_flag=_UNIT * unit | _UNIT_SUB * has_unit_sub,
        order=order,
        attributes=parse_attributes(attributes or ""),
    )
    if broker_addr is not None:
        await _on_one(admin, out, broker_addr, config)
    else:
        await _on_cluster(admin, out, cluster_name, config)
    out.line(topic_text(config))


async def _on_one(admin: "Admin", out: Out, address: str, config: TopicConfig) -> None:
    await admin.put_topic(address, config, config.attributes)
    if config.order:
        share = await admin.merge_order(config, await _name_of(admin, address))
        out.line(f"set broker orderConf. isOrder=true, orderConf=[{share}]")
    out.line(f"create topic to {address} success.", _row(address, config))


async def _on_cluster(admin: "Admin", out: Out, cluster: str | None, config: TopicConfig) -> None:
    masters = await admin.masters(cluster)
    for address in masters.values():
        await admin.put_topic(address, config, config.attributes)
        out.line(f"create topic to {address} success.", _row(address, config))
    if config.order:
        text = await admin.put_order(config, masters)
        out.line(f"set cluster orderConf. isOrder=true, orderConf=[{text}]")


async def _name_of(admin: "Admin", address: str) -> str:
    for name, data in (await admin.broker_groups()).items():
        if address in data.broker_addrs.values():
            return name
    raise NotFound(f"no broker {address} is registered, so its order cannot be configured")


def _row(address: str, config: TopicConfig) -> dict[str, object]:
    return {"broker": address, **msgspec.to_builtins(config)}


def topic_text(config: TopicConfig) -> str:
    """The configuration in one line, as RocketMQ prints it."""
    values: dict[str, object] = {
        "topicName": config.topic_name,
        "readQueueNums": config.read_queue_nums,
        "writeQueueNums": config.write_queue_nums,
        "perm": format_perm(config.perm),
        "topicFilterType": config.topic_filter_type,
        "topicSysFlag": config.topic_sys_flag,
        "order": config.order,
        "attributes": config.attributes,
    }
    return fields_of("TopicConfig", values, " []")


def parse_attributes(text: str) -> dict[str, str]:
    """`+a=b,-c` as {"+a": "b", "-c": ""}; `UsageError` for anything else."""
    changes: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if key in changes:
            raise UsageError(f"the attribute {key[1:]} stands twice in '{text}'")
        if not (key[:1] == "+" and value) and not (key[:1] == "-" and not equals):
            raise UsageError(f"'{part}' is no change of an attribute; write +name=value or -name")
        changes[key] = value
    return changes


@mq_command(
    "deleteTopic",
    opt("t", "topic", "The topic.", required=True),
    opt("c", "clusterName", "The cluster to delete it from.", required=True),
)
async def delete_topic(admin: "Admin", out: Out, topic: str, cluster_name: str) -> None:
    """Delete a topic with its messages from a cluster, and from the name servers."""
    addresses = list((await admin.masters(cluster_name)).values())
    await admin.delete_topic_in_brokers(topic, addresses)
    out.line(f"delete topic [{topic}] from cluster [{cluster_name}] success.")
    await admin.delete_topic_in_namesrv(topic, cluster_name)
    row = {"topic": topic, "cluster": cluster_name, "brokers": addresses}
    out.line(f"delete topic [{topic}] from NameServer success.", row)


COMMANDS = {"updateTopic": update_topic, "deleteTopic": delete_topic}
