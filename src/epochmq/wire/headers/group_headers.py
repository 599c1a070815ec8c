"""Headers of requests about consumer groups, clients and queue locks."""

from epochmq.wire.header import I32, I64, Header, RpcHeader, TopicHeader

# Group headers -------------------------------------------------------------------------------
# Headers of consumer-group administration: 207, 208, 314, 317, 343, 345, 352, 353 (2.4).


class DeleteGroupHeader(RpcHeader):
    """DELETE_SUBSCRIPTIONGROUP 207. Tools of 4.9 send `removeOffset` instead of `cleanOffset`."""

    groupName: str
    cleanOffset: bool | None = None
    removeOffset: bool | None = None

    @property
    def cleans_offset(self) -> bool:
        """Whether the offsets of the group must be deleted as well, under either name."""
        return bool(self.cleanOffset or self.removeOffset)


class GetGroupConfigHeader(RpcHeader):
    """GET_SUBSCRIPTIONGROUP_CONFIG 352."""

    group: str


class GetConsumeStatsHeader(TopicHeader):
    """GET_CONSUME_STATS 208. `topicList` (5.3) holds topics separated by `;`."""

    consumerGroup: str
    topic: str | None = None
    topicList: str | None = None


class GetBrokerConsumeStatsHeader(Header):
    """GET_BROKER_CONSUME_STATS 317, for ordered groups only or for all groups."""

    isOrder: bool


class CloneGroupOffsetHeader(RpcHeader):
    """CLONE_GROUP_OFFSET 314; without `topic`, all topics of `srcGroup` are copied."""

    srcGroup: str
    destGroup: str
    topic: str | None = None
    offline: bool | None = None


class QueryTopicsByConsumerHeader(RpcHeader):
    """QUERY_TOPICS_BY_CONSUMER 343; the answer's body is a TopicList."""

    group: str


class QuerySubscriptionByConsumerHeader(TopicHeader):
    """QUERY_SUBSCRIPTION_BY_CONSUMER 345."""

    group: str
    topic: str | None = None


class GroupForbiddenHeader(TopicHeader):
    """UPDATE_AND_GET_GROUP_FORBIDDEN 353; without `readable` the request only asks."""

    group: str
    topic: str
    readable: bool | None = None


class QueryCorrectionOffsetHeader(TopicHeader):
    """QUERY_CORRECTION_OFFSET 308; `filterGroups` is a list separated by commas."""

    compareGroup: str
    topic: str
    filterGroups: str | None = None


# Client headers ------------------------------------------------------------------------------
# Headers of client sessions: 34, 35, 38, 40, 203, 204.


class HeartbeatResponseHeader(Header):
    """Answer to a heartbeat; both fields belong to the V2 heartbeat and may be missing."""

    IS_SUPPORT_HEART_BEAT_V2: bool | None = None
    IS_SUB_CHANGE: bool | None = None


class UnregisterClientHeader(RpcHeader):
    """UNREGISTER_CLIENT 35: a client leaves its producer group, its consumer group, or both."""

    clientID: str
    producerGroup: str | None = None
    consumerGroup: str | None = None


class GetConsumerListHeader(RpcHeader):
    """GET_CONSUMER_LIST_BY_GROUP 38."""

    consumerGroup: str


class NotifyConsumerIdsChangedHeader(RpcHeader):
    """NOTIFY_CONSUMER_IDS_CHANGED 40 (broker to client, one-way): asks for a rebalance."""

    consumerGroup: str


class GetConsumerConnectionListHeader(RpcHeader):
    """GET_CONSUMER_CONNECTION_LIST 203."""

    consumerGroup: str


class GetProducerConnectionListHeader(RpcHeader):
    """GET_PRODUCER_CONNECTION_LIST 204."""

    producerGroup: str


# Lock headers --------------------------------------------------------------------------------
# Headers of queue locks: LOCK_BATCH_MQ 41 and UNLOCK_BATCH_MQ 42.


class LockBatchHeader(RpcHeader):
    """LOCK_BATCH_MQ 41; the body is LockBatchRequest.

    The fields are of EpochMQ, between members of a group. An answer repeats the fields it got.
    """

    lockAsker: str | None = None
    """The broker that asks for a vote; without it the sender is a client or a RocketMQ broker."""
    lockNumber: I64 | None = None
    """A number that rises with each request of `lockAsker`."""
    totalReplicas: I32 | None = None


class UnlockBatchHeader(RpcHeader):
    """UNLOCK_BATCH_MQ 42; the body is LockBatchRequest, the fields are as in `LockBatchHeader`."""

    lockAsker: str | None = None
    lockNumber: I64 | None = None
    lockUndo: bool | None = None
    """Whether only the effect of the request with this number is undone."""
