"""Headers of consumer-group administration: 207, 208, 314, 317, 343, 345, 352, 353 (2.4)."""

from epochmq.wire.headers.header import Header, RpcHeader, TopicHeader


class DeleteGroupHeader(RpcHeader):
    """DELETE_SUBSCRIPTIONGROUP 207. 4.9 tools send `removeOffset` for `cleanOffset`."""

    groupName: str
    cleanOffset: bool | None = None
    removeOffset: bool | None = None

    @property
    def cleans_offset(self) -> bool:
        """Whether the group's offsets are to go as well, under either name."""
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
    """GET_BROKER_CONSUME_STATS 317: of ordered groups only, or of all."""

    isOrder: bool


class CloneGroupOffsetHeader(RpcHeader):
    """CLONE_GROUP_OFFSET 314; no `topic` means all topics of `srcGroup`."""

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
    """UPDATE_AND_GET_GROUP_FORBIDDEN 353; `readable` absent only asks."""

    group: str
    topic: str
    readable: bool | None = None


class QueryCorrectionOffsetHeader(TopicHeader):
    """QUERY_CORRECTION_OFFSET 308; `filterGroups` is a comma list."""

    compareGroup: str
    topic: str
    filterGroups: str | None = None
