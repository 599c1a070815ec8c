"""`updateTopic`, `updateTopicList`, `updateTopicPerm`, `updateOrderConf`, `deleteTopic`."""

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
import msgspec

from epochmq.admin.mqadmin.running import Out, mq_command, one_of, opt
from epochmq.admin.shared.java_text import fields_of
from epochmq.base.errors import NotFound, UsageError
from epochmq.model.names import check_topic
from epochmq.model.topic import TopicConfig, format_perm

if TYPE_CHECKING:
    from epochmq.client.aio import Admin

C = TypeVar("C")

_WHERE = "-b BROKERADDR, -c CLUSTERNAME"
_FILE = click.Path(dir_okay=False, path_type=Path)
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
    one_of(broker_addr, cluster_name, _WHERE)
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
            raise UsageError(
                f"'{part}' is not a change of an attribute; write +name=value or -name"
            )
        changes[key] = value
    return changes


@mq_command(
    "updateTopicList",
    opt("b", "brokerAddr", "On one broker, HOST:PORT."),
    opt("c", "clusterName", "On all masters of a cluster."),
    opt("f", "filename", "A file with a JSON list of topics.", _FILE, required=True),
)
async def update_topic_list(
    admin: "Admin", out: Out, broker_addr: str | None, cluster_name: str | None, filename: Path
) -> None:
    """Create or change the topics of a file."""
    one_of(broker_addr, cluster_name, _WHERE)
    configs = read_list(filename, TopicConfig)
    for config in configs:
        check_topic(config.topic_name)
    masters = [broker_addr] if broker_addr else (await admin.masters(cluster_name)).values()
    for address in masters:
        for config in configs:
            await admin.put_topic(address, config, config.attributes)
        row = {"broker": address, "topics": [config.topic_name for config in configs]}
        out.line(
            f"submit batch of topic config to {address} success, please check the result later.",
            row,
        )


def read_list(path: Path, kind: type[C]) -> list[C]:
    """Return the JSON list of a file. Raises `UsageError` if it is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[kind])  # type: ignore[valid-type]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} has no JSON list of {kind.__name__}: {error}") from None


@mq_command(
    "updateTopicPerm",
    opt("b", "brokerAddr", "On one master, HOST:PORT."),
    opt("c", "clusterName", "On all masters of a cluster."),
    opt("t", "topic", "The topic.", required=True),
    opt("p", "perm", "2 write, 4 read, 6 both.", click.IntRange(0, 7), required=True),
)
async def update_topic_perm(
    admin: "Admin",
    out: Out,
    broker_addr: str | None,
    cluster_name: str | None,
    topic: str,
    perm: int,
) -> None:
    """Change whether a topic can be written and read; the rest of it stays."""
    one_of(broker_addr, cluster_name, _WHERE)
    chosen = [broker_addr] if broker_addr else (await admin.masters(cluster_name)).values()
    having = (await admin.brokers_of(topic)).values()
    masters = [address for address in chosen if address in having]
    if not masters:
        place = broker_addr or f"of {cluster_name}"
        raise NotFound(f"no master {place} has the topic {topic}; see mqadmin topicRoute")
    for address in masters:
        config = await admin.topic_config(address, topic)
        old, config.perm = config.perm, perm
        if old == perm and broker_addr is not None:
            out.line("new perm equals to the old one!", _row(address, config))
            return
        await admin.put_topic(address, config)
        text = f"update topic perm from {old} to {perm} in {address} success."
        out.line(text, _row(address, config))
        if broker_addr is not None:
            out.line(f"{topic_text(config)}.")


@mq_command(
    "updateOrderConf",
    opt("t", "topic", "The topic.", required=True),
    opt("v", "orderConf", "With put: the queues of each broker, as broker-a:4;broker-b:4."),
    opt("m", "method", "What to do.", click.Choice(["put", "get", "delete"]), required=True),
)
async def update_order_conf(
    admin: "Admin", out: Out, topic: str, order_conf: str | None, method: str
) -> None:
    """Show, set or delete the order configuration of a topic at the name servers."""
    from epochmq.client.aio.admin_namesrv import ORDER_TOPICS

    row = {"topic": topic, "method": method}
    if method == "get":
        found = await admin.get_kv(ORDER_TOPICS, topic)
        if found is None:
            raise NotFound(f"topic {topic} has no order configuration")
        out.line(
            f"get orderConf success. topic=[{topic}], orderConf=[{found}] ",
            {**row, "orderConf": found},
        )
    elif method == "put":
        if order_conf is None:
            raise click.UsageError("put needs -v ORDERCONF, as broker-a:4;broker-b:4")
        await admin.put_kv(ORDER_TOPICS, topic, order_conf)
        text = f"update orderConf success. topic=[{topic}], orderConf=[{order_conf}]"
        out.line(text, {**row, "orderConf": order_conf})
    else:
        await admin.delete_kv(ORDER_TOPICS, topic)
        out.line(f"delete orderConf success. topic=[{topic}]", row)


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


COMMANDS = {
    "updateTopic": update_topic,
    "updateTopicList": update_topic_list,
    "updateTopicPerm": update_topic_perm,
    "updateOrderConf": update_order_conf,
    "deleteTopic": delete_topic,
}
