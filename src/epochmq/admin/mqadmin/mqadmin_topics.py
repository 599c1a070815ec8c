"""`topicList`, `topicRoute`, `topicStatus`, `topicClusterList`, `allocateMQ`."""

from typing import TYPE_CHECKING

import msgspec

from epochmq.admin.mqadmin.running import Out, flag, mq_command, opt
from epochmq.admin.shared.java_text import moment, pretty_json, text_of
from epochmq.admin.shared.operations import route_parts
from epochmq.admin.shared.output import Bar
from epochmq.base.errors import EpochError
from epochmq.model.allocate import average
from epochmq.model.names import is_dlq_topic, is_retry_topic
from epochmq.model.topic import PERM_READ, MessageQueue, TopicRouteData

if TYPE_CHECKING:
    from epochmq.client.aio import Admin

_TOPIC = opt("t", "topic", "The topic.", required=True)
_ROUTE = "{:<45} {:<32} {:<50} {:<10} {:<11} {:<5}"
_ROUTE_HEAD = _ROUTE.format(
    "#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm"
)
_STATUS = "{:<32}  {:<4}  {:<20}  {:<20}    {}"
_STATUS_HEAD = _STATUS.format("#Broker Name", "#QID", "#Min Offset", "#Max Offset", "#Last Updated")


@mq_command("topicList", flag("c", "clusterModel", "With clusters and consumer groups."))
async def topic_list(admin: "Admin", out: Out, cluster_model: bool) -> None:
    """Print the names of all topics."""
    topics = await admin.topics()
    if not cluster_model:
        for topic in topics:
            out.line(topic, {"topic": topic})
        return
    out.line(f"{'#Cluster Name':<20}  {'#Topic':<48}  {'#Consumer Group':<48}")
    wanted = [t for t in topics if not is_retry_topic(t) and not is_dlq_topic(t)]
    with Bar("asking", total=len(wanted)) as bar:
        for done, topic in enumerate(wanted):
            clusters, groups = await _users_of(admin, topic)
            bar.set(done + 1, topic)
            cluster = clusters[0] if clusters else ""
            for group in groups or [""]:
                out.line(f"{cluster[:20]:<20}  {topic[:64]:<64}  {group[:64]:<64}")
            out.row({"topic": topic, "clusters": clusters, "groups": groups})


async def _users_of(admin: "Admin", topic: str) -> tuple[list[str], list[str]]:
    """Clusters and groups; a topic that went meanwhile, or a broker that is away, has none."""
    clusters: list[str] = []
    try:
        clusters = await admin.clusters_of(topic)
        return clusters, await admin.groups_of(topic)
    except EpochError:
        return clusters, []


@mq_command("topicRoute", _TOPIC, flag("l", "list", "As a table, not as JSON."))
async def topic_route(admin: "Admin", out: Out, topic: str, list: bool) -> None:
    """Print which brokers have queues of a topic."""
    route = await admin.route(topic)
    tree = in_order(msgspec.to_builtins(route))
    if out.as_json:
        out.row(tree)
    elif not list:
        out.line(pretty_json(tree))
    else:
        for line in route_lines(route):
            out.line(line)


def in_order(tree: dict[str, object]) -> dict[str, object]:
    """Maps with their keys in order, as RocketMQ prints them."""

    def ordered(each: object) -> object:
        if isinstance(each, dict):
            return {key: ordered(each[key]) for key in sorted(each)}
        return [ordered(item) for item in each] if isinstance(each, list) else each

    return {key: ordered(tree[key]) for key in sorted(tree)}


def route_lines(route: TopicRouteData) -> list[str]:
    """The route as a table with a sum."""
    lines = [_ROUTE_HEAD]
    reads = writes = 0
    for broker, data in route_parts(route):
        reads, writes = reads + data.read_queue_nums, writes + data.write_queue_nums
        addresses = text_of(dict(sorted(broker.broker_addrs.items())))
        counts = (data.read_queue_nums, data.write_queue_nums, data.perm)
        lines.append(_ROUTE.format(broker.cluster, broker.broker_name, addresses, *counts))
    total = _ROUTE.format("Total:", len(route.queue_datas), "", reads, writes, "")
    return [*lines, "-" * 158, total]


@mq_command(
    "topicStatus",
    _TOPIC,
    opt("c", "cluster", "For a light queue (%LMQ%): the topic whose brokers have it."),
)
async def topic_status(admin: "Admin", out: Out, topic: str, cluster: str | None) -> None:
    """Print the bounds of each queue of a topic and when its last message came."""
    bounds, tps = await admin.topic_stats(topic, route_of=cluster)
    out.line(_STATUS_HEAD)
    for queue, at in bounds.items():
        last = moment(at.last_update_timestamp) if at.last_update_timestamp > 0 else ""
        row = {
            "topic": topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "min_offset": at.min_offset,
            "max_offset": at.max_offset,
            "last_ms": at.last_update_timestamp,
        }
        offsets = (at.min_offset, at.max_offset)
        out.line(_STATUS.format(queue.broker_name[:32], queue.queue_id, *offsets, last), row)
    out.line()
    out.line(f"Topic Put TPS: {tps}")


@mq_command("topicClusterList", _TOPIC)
async def topic_cluster_list(admin: "Admin", out: Out, topic: str) -> None:
    """Print the clusters that have a topic."""
    for cluster in await admin.clusters_of(topic):
        out.line(cluster, {"cluster": cluster})


@mq_command(
    "allocateMQ",
    _TOPIC,
    opt("i", "ipList", "The members, separated by commas.", required=True),
)
async def allocate_mq(admin: "Admin", out: Out, topic: str, ip_list: str) -> None:
    """Print which queues of a topic each of some members would get, with RocketMQ's default."""
    queues = sorted(
        MessageQueue(topic, broker.broker_name, number)
        for broker, data in route_parts(await admin.route(topic))
        if data.perm & PERM_READ
        for number in range(data.read_queue_nums)
    )
    members = ip_list.split(",")
    result = {
        member: [
            {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": topic}
            for queue in average(member, queues, members)
        ]
        for member in members
    }
    text = msgspec.json.encode({"result": result}).decode()
    out.line(text, {"result": result})


COMMANDS = {
    "topicList": topic_list,
    "topicRoute": topic_route,
    "topicStatus": topic_status,
    "topicClusterList": topic_cluster_list,
    "allocateMQ": allocate_mq,
}
