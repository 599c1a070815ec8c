"""All request codes off the message path, by handler; send and pull are the dispatcher's own."""

from epochmq.broker.handlers import (
    admin,
    bulk_read,
    client,
    config,
    consume_admin,
    group,
    heartbeat,
    lock,
    offset,
    progress,
    query,
    queue_bounds,
    relay,
    replica,
    reset,
    runtime_info,
    topic,
)
from epochmq.broker.handlers.common import NodeHandler

COLD: dict[int, NodeHandler] = {
    **admin.HANDLERS,
    **bulk_read.HANDLERS,
    **client.HANDLERS,
    **config.HANDLERS,
    **consume_admin.HANDLERS,
    **group.HANDLERS,
    **heartbeat.HANDLERS,
    **lock.HANDLERS,
    **offset.HANDLERS,
    **progress.HANDLERS,
    **query.HANDLERS,
    **queue_bounds.HANDLERS,
    **relay.HANDLERS,
    **replica.HANDLERS,
    **reset.HANDLERS,
    **runtime_info.HANDLERS,
    **topic.HANDLERS,
}
