"""Operations of both command lines that need several calls of `Admin`."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from epochmq.base.errors import Refused
from epochmq.model.names import dlq_topic, retry_topic
from epochmq.model.topic import BrokerData, MessageQueue, QueueData, TopicRouteData

if TYPE_CHECKING:
    from epochmq.client.aio import Admin
    from epochmq.client.aio.admin_progress import Moved


def route_parts(route: TopicRouteData) -> list[tuple[BrokerData, QueueData]]:
    """Return the brokers of a topic by name, with their queues; brokers without queues are left
    out.
    """
    queues = {data.broker_name: data for data in route.queue_datas}
    brokers = sorted(route.broker_datas, key=lambda data: data.broker_name)
    return [(each, queues[each.broker_name]) for each in brokers if each.broker_name in queues]


async def delete_group(
    admin: "Admin", group: str, cluster: str | None, *, clean_offsets: bool
) -> AsyncIterator[tuple[str, str]]:
    """Delete a group on all masters, yielding their name and address, then the group's topics."""
    for name, address in (await admin.masters(cluster)).items():
        await admin.delete_group(address, group, clean_offsets=clean_offsets)
        yield name, address
    for topic in (retry_topic(group), dlq_topic(group)):
        await admin.delete_topic(topic, cluster)


async def reset_to_time(
    admin: "Admin", group: str, topic: str, wall_ms: int, *, force: bool = True
) -> "dict[MessageQueue, int] | list[Moved]":
    """Reset a group's offsets to a time in all queues; returns a list when the client does it.

    Brokers before 5.3 cannot reset a group without members.
    """
    from epochmq.client.aio.admin_groups import is_offline

    try:
        return await admin.reset_offsets(group, topic, wall_ms, force=force)
    except Refused as error:
        if not is_offline(error):
            raise
    return await admin.reset_offline(group, topic, wall_ms, force=force)
