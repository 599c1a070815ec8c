"""Bodies of consumer-group administration."""

from msgspec import UNSET, UnsetType

from epochmq.model.data_version import DataVersion
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.queue import MessageQueue
from epochmq.model.subscription import SubscriptionData
from epochmq.wire.bodies.body import Body, MaybeText


class SubscriptionGroupTable(Body):
    """Answer to GET_ALL_SUBSCRIPTIONGROUP_CONFIG 201; `forbidden_table`: group, topic, bits."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}
    forbidden_table: dict[str, dict[str, int]] = {}
    data_version: DataVersion = DataVersion()


class SubscriptionGroupList(Body):
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST 225 (5.3)."""

    group_config_list: list[SubscriptionGroupConfig] = []


class OffsetWrapper(Body):
    """How far a group is in one queue; `last_timestamp` is the store time (wall ms) it is at."""

    broker_offset: int = 0
    consumer_offset: int = 0
    pull_offset: int = 0
    last_timestamp: int = 0


class ConsumeStats(Body):
    """Answer to GET_CONSUME_STATS 208; `offset_table` is keyed by queue (`mq_map_decode`)."""

    offset_table: dict[str, OffsetWrapper] = {}
    consume_tps: float = 0.0


class ConsumeStatsList(Body):
    """Answer to GET_BROKER_CONSUME_STATS 317: for each group its statistics by topic."""

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = []
    broker_addr: MaybeText = UNSET
    total_diff: int = 0
    total_inflight_diff: int = 0


class QueueTimeSpan(Body):
    """Store times (wall ms) of a queue's ends and of a group's position; `delay_time` is ms."""

    message_queue: MessageQueue
    min_time_stamp: int = 0
    max_time_stamp: int = 0
    consume_time_stamp: int = 0
    delay_time: int = 0


class ConsumeTimeSpans(Body):
    """Answer to QUERY_CONSUME_TIME_SPAN 303."""

    consume_time_span_set: list[QueueTimeSpan] = []


class QuerySubscriptionBody(Body):
    """Answer to QUERY_SUBSCRIPTION_BY_CONSUMER 345."""

    group: str = ""
    topic: str = ""
    subscription_data: SubscriptionData | UnsetType | None = UNSET


class CorrectionOffsets(Body):
    """Answer to QUERY_CORRECTION_OFFSET 308: queue offset by queue id."""

    correction_offsets: dict[int, int] = {}
