"""What the pages about topics show."""

from epochmq.admin.dashboard.cluster_client import ClusterClient
from epochmq.admin.dashboard.paging import Row, page_of, rows_of
from epochmq.admin.nouns.noun_base import route_of
from epochmq.base.errors import EpochError
from epochmq.model.names import is_dlq_topic, is_retry_topic, is_system_topic

_TYPE = "message.type"
_RIGHTS = {2: "write", 4: "read", 6: "read and write"}


async def topic_list(client: ClusterClient, part: str, page: int, with_system: bool) -> Row:
    """Return one page of topics with their queues and rates.

    Args:
        client: connections to the cluster.
        part: a part of the topic's name; empty for all topics.
        page: number of the page, from 0.
        with_system: whether topics of the brokers, of retries and dead letters are included.
    """
    names = sorted(await client.admin.topics())
    if not with_system:
        names = [name for name in names if not _is_internal(name)]
    shown, total = page_of(names, part, page)

    async def one(topic: str) -> Row:
        row: Row = {"topic": topic, "problem": None}
        try:
            offsets, tps = await client.admin.topic_stats(topic)
        except EpochError as error:
            return {**row, "problem": str(error)}
        kept = sum(max(0, at.max_offset - max(0, at.min_offset)) for at in offsets.values())
        return {
            **row,
            "queues": len(offsets),
            "brokers": len({queue.broker_name for queue in offsets}),
            "messages": kept,
            "in_tps": round(tps, 2),
            "last_ms": max((at.last_update_timestamp for at in offsets.values()), default=0)
            or None,
        }

    return {"rows": await rows_of(shown, one), "total": total}


async def topic_detail(client: ClusterClient, topic: str) -> Row:
    """Return the queues, the configuration and the consumer groups of a topic.

    Raises:
        NotFound: the topic does not exist; the text names the most similar one.
    """
    route = await route_of(client.admin, topic)
    offsets, tps = await client.admin.topic_stats(topic)
    groups = await client.admin.groups_of(topic)
    configs: list[Row] = []
    for broker, address in (await client.admin.brokers_of(topic)).items():
        try:
            config = await client.admin.topic_config(address, topic)
        except EpochError as error:
            configs.append({"broker": broker, "problem": str(error)})
            continue
        configs.append(
            {
                "broker": broker,
                "read_queues": config.read_queue_nums,
                "write_queues": config.write_queue_nums,
                "rights": _RIGHTS.get(config.perm & 6, "none"),
                "type": config.attributes.get(_TYPE, config.attributes.get(f"+{_TYPE}")),
                "order": config.order,
                "problem": None,
            }
        )
    return {
        "topic": topic,
        "in_tps": round(tps, 2),
        "brokers": sorted(data.broker_name for data in route.broker_datas),
        "configs": configs,
        "groups": groups,
        "queues": [
            {
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "min_offset": at.min_offset,
                "max_offset": at.max_offset,
                "messages": max(0, at.max_offset - max(0, at.min_offset)),
                "last_ms": at.last_update_timestamp or None,
            }
            for queue, at in offsets.items()
        ],
    }


def _is_internal(name: str) -> bool:
    return is_system_topic(name) or is_retry_topic(name) or is_dlq_topic(name)
