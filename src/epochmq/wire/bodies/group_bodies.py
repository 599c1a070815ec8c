"""Bodies of requests about consumer groups, clients and queue locks."""

from msgspec import UNSET, UnsetType

from epochmq.model.data_version import DataVersion
from epochmq.model.group import SubscriptionData, SubscriptionGroupConfig
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies.body import Body, MaybeText, camel_but

# Group bodies --------------------------------------------------------------------------------
# Bodies of consumer-group administration.


class SubscriptionGroupTable(Body):
    """Answer to GET_ALL_SUBSCRIPTIONGROUP_CONFIG 201. `forbidden_table`: group, topic, permission
    bits.
    """

    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}
    forbidden_table: dict[str, dict[str, int]] = {}
    data_version: DataVersion = DataVersion()
    epochmq_removed: list[str] | UnsetType = UNSET
    """Groups that were deleted, in a part with changes (`wire/table_parts.py`)."""


class SubscriptionGroupList(Body):
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST 225 (5.3)."""

    group_config_list: list[SubscriptionGroupConfig] = []


class OffsetWrapper(Body):
    """The position of a group in one queue. `last_timestamp` is the store time of the message
    before it, Unix ms.
    """

    broker_offset: int = 0
    consumer_offset: int = 0
    pull_offset: int = 0
    last_timestamp: int = 0
    oldest_timestamp: int | UnsetType = UNSET
    """Store time (Unix ms) of the oldest message that the group has not consumed. EpochMQ's own;
    missing if there is none, or from other brokers."""


class ConsumeStats(Body):
    """Answer to GET_CONSUME_STATS 208; `offset_table` is keyed by queue (`mq_map_decode`)."""

    offset_table: dict[str, OffsetWrapper] = {}
    consume_tps: float = 0.0


class ConsumeStatsList(Body):
    """Answer to GET_BROKER_CONSUME_STATS 317: the statistics of each group, by topic."""

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = []
    broker_addr: MaybeText = UNSET
    total_diff: int = 0
    total_inflight_diff: int = 0


class QueueTimeSpan(Body):
    """Store times of the ends of a queue and of a group's position (Unix ms);
    `delay_time` is ms.
    """

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


# Client bodies -------------------------------------------------------------------------------
# Bodies of heartbeats and of lists of clients.


CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
BROADCASTING = "BROADCASTING"
CLUSTERING = "CLUSTERING"
FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class ProducerData(Body):
    """One producer group of a client."""

    group_name: str


class ConsumerData(Body):
    """One consumer group of a client. Pull clients are CONSUME_ACTIVELY, push clients PASSIVELY.

    Enumerations stay texts, so that values of newer versions are accepted.
    """

    group_name: str
    consume_type: str = CONSUME_PASSIVELY
    message_model: str = CLUSTERING
    consume_from_where: str = FROM_LAST_OFFSET
    subscription_data_set: list[SubscriptionData] = []
    unit_mode: bool = False


class HeartbeatData(Body, rename=camel_but(client_id="clientID")):
    """HEART_BEAT 34: all groups of one client. Fingerprint and `withoutSub` exist since 5.1."""

    client_id: str
    producer_data_set: list[ProducerData] = []
    consumer_data_set: list[ConsumerData] = []
    heartbeat_fingerprint: int = 0
    without_sub: bool = False


class ConsumerList(Body):
    """Answer to GET_CONSUMER_LIST_BY_GROUP 38."""

    consumer_id_list: list[str] = []


class CheckClientBody(Body):
    """CHECK_CLIENT_CONFIG 46: asks whether a filter can be compiled."""

    client_id: str = ""
    group: str = ""
    namespace: MaybeText = UNSET
    subscription_data: SubscriptionData | UnsetType | None = UNSET


class ClientConnection(Body):
    """One client of a group; `language` is the name of a language, `version` a version number."""

    client_id: str = ""
    client_addr: str = ""
    language: str = "OTHER"
    version: int = 0


class ConsumerConnection(Body):
    """Answer to GET_CONSUMER_CONNECTION_LIST 203."""

    connection_set: list[ClientConnection] = []
    subscription_table: dict[str, SubscriptionData] = {}
    consume_type: MaybeText = UNSET
    message_model: MaybeText = UNSET
    consume_from_where: MaybeText = UNSET


class ProducerConnection(Body):
    """Answer to GET_PRODUCER_CONNECTION_LIST 204."""

    connection_set: list[ClientConnection] = []


class ProducerInfo(Body, rename=camel_but(remote_ip="remoteIP")):
    """One producer; `last_update_timestamp` is Unix milliseconds."""

    client_id: str = ""
    remote_ip: str = ""
    language: str = "OTHER"
    version: int = 0
    last_update_timestamp: int = 0


class ProducerTable(Body):
    """Answer to GET_ALL_PRODUCER_INFO 328: producers by group."""

    data: dict[str, list[ProducerInfo]] = {}


# Lock bodies ---------------------------------------------------------------------------------
# Bodies of queue locks: LOCK_BATCH_MQ 41 and UNLOCK_BATCH_MQ 42.


class LockBatchRequest(Body):
    """Locks or unlocks queues for client `client_id`; `only_this_broker` exists since 5.0."""

    consumer_group: str
    client_id: str
    mq_set: list[MessageQueue] = []
    only_this_broker: bool = False


class LockBatchResponse(Body, rename=camel_but(lock_ok_mq_set="lockOKMQSet")):
    """The queues that the client has locked now."""

    lock_ok_mq_set: list[MessageQueue] = []
