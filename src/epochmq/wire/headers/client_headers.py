"""Headers of client sessions: 34, 35, 38, 40, 203, 204."""

from epochmq.wire.headers.header import Header, RpcHeader


class HeartbeatHeader(RpcHeader):
    """HEART_BEAT 34: nothing of its own; the body is HeartbeatData."""


class HeartbeatResponseHeader(Header):
    """Answer to a heartbeat; both fields belong to the V2 heartbeat and may be absent."""

    IS_SUPPORT_HEART_BEAT_V2: bool | None = None
    IS_SUB_CHANGE: bool | None = None


class UnregisterClientHeader(RpcHeader):
    """UNREGISTER_CLIENT 35: a client leaves its producer group, its consumer group or both."""

    clientID: str
    producerGroup: str | None = None
    consumerGroup: str | None = None


class GetConsumerListHeader(RpcHeader):
    """GET_CONSUMER_LIST_BY_GROUP 38."""

    consumerGroup: str


class NotifyConsumerIdsChangedHeader(RpcHeader):
    """NOTIFY_CONSUMER_IDS_CHANGED 40 (broker to client, one-way): rebalance now."""

    consumerGroup: str


class GetConsumerConnectionListHeader(RpcHeader):
    """GET_CONSUMER_CONNECTION_LIST 203."""

    consumerGroup: str


class GetProducerConnectionListHeader(RpcHeader):
    """GET_PRODUCER_CONNECTION_LIST 204."""

    producerGroup: str
