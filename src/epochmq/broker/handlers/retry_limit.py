"""How many retries a broker allows for the message of a request."""

from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.retries import broker_limit
from epochmq.wire.codes import VERSION_3_4_9


def retry_limit(asked: int | None, version: int, group: SubscriptionGroupConfig) -> int:
    """The request's `maxReconsumeTimes` if the client is 3.4.9 or newer, else the group's limit."""
    return broker_limit(asked if version >= VERSION_3_4_9 else None, group.retry_max_times)
