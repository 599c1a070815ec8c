"""Headers of registration and routes: 103 to 105, 205, 215 to 217, 322, 327, 904, 905;
100 to 102.
"""

import msgspec

from epochmq.wire.header import I32, I64, Header, TopicHeader


class RegisterBrokerHeader(Header):
    """REGISTER_BROKER 103. Without `heartbeatTimeoutMillis`, 120,000 ms are used.

    4.x brokers send no `enableActingMaster`. `bodyCrc32` 0 means that the body is not checked.
    EpochMQ's own fields: `groupAddr` is the address of the group's master for clients (ADR 0082);
    `isPart` says that the broker has more topics than the body (ADR 0109).
    """

    brokerName: str
    brokerAddr: str
    clusterName: str
    haServerAddr: str
    brokerId: I64
    heartbeatTimeoutMillis: I64 | None = None
    enableActingMaster: bool | None = None
    compressed: bool = False
    bodyCrc32: I32 = 0
    zoneName: str | None = msgspec.field(default=None, name="__ZONE_NAME")
    groupAddr: str | None = None
    isPart: bool | None = None


class RegisterBrokerResponseHeader(Header):
    """Answer to 103: the living master, for a broker that is not the master."""

    haServerAddr: str | None = None
    masterAddr: str | None = None


class UnregisterBrokerHeader(Header):
    """UNREGISTER_BROKER 104."""

    brokerName: str
    brokerAddr: str
    clusterName: str
    brokerId: I64


class GetRouteHeader(TopicHeader):
    """GET_ROUTEINFO_BY_TOPIC 105.

    `ownAddresses` is EpochMQ's own: true requests the brokers' own addresses, without group
    addresses (ADR 0082).
    """

    topic: str
    acceptStandardJsonOnly: bool | None = None
    ownAddresses: bool | None = None


class QueryDataVersionHeader(Header):
    """QUERY_DATA_VERSION 322: asks whether the topic table changed. It also counts as a
    heartbeat.
    """

    brokerName: str
    brokerAddr: str
    clusterName: str
    brokerId: I64


class QueryDataVersionResponseHeader(Header):
    """Answer to 322."""

    changed: bool


class BrokerHeartbeatHeader(Header):
    """BROKER_HEARTBEAT 904 (one-way). The optional fields are for controllers."""

    clusterName: str
    brokerAddr: str
    brokerName: str
    brokerId: I64 | None = None
    epoch: I32 | None = None
    maxOffset: I64 | None = None
    confirmOffset: I64 | None = None
    heartbeatTimeoutMills: I64 | None = None
    electionPriority: I32 | None = None


class GetBrokerMemberGroupHeader(Header):
    """GET_BROKER_MEMBER_GROUP 901."""

    clusterName: str
    brokerName: str


class NotifyMinBrokerIdChangeHeader(Header):
    """NOTIFY_MIN_BROKER_ID_CHANGE 905 (name server to broker, one-way)."""

    minBrokerId: I64 | None = None
    brokerName: str | None = None
    minBrokerAddr: str | None = None
    offlineBrokerAddr: str | None = None
    haBrokerAddr: str | None = None


class WipeWritePermHeader(Header):
    """WIPE_WRITE_PERM_OF_BROKER 205."""

    brokerName: str


class WipeWritePermResponseHeader(Header):
    """Answer to 205."""

    wipeTopicCount: I32


class AddWritePermHeader(Header):
    """ADD_WRITE_PERM_OF_BROKER 327."""

    brokerName: str


class AddWritePermResponseHeader(Header):
    """Answer to 327."""

    addTopicCount: I32


class DeleteTopicInNamesrvHeader(Header):
    """DELETE_TOPIC_IN_NAMESRV 216."""

    topic: str
    clusterName: str | None = None


class RegisterTopicHeader(TopicHeader):
    """REGISTER_TOPIC_IN_NAMESRV 217; the body is TopicRouteData."""

    topic: str


class GetTopicsByClusterHeader(Header):
    """GET_TOPICS_BY_CLUSTER 224."""

    cluster: str


# Key-value headers ---------------------------------------------------------------------------
# Headers of the key-value configuration of name servers: 100 to 102, 219.


class PutKVConfigHeader(Header):
    """PUT_KV_CONFIG 100."""

    namespace: str
    key: str
    value: str


class GetKVConfigHeader(Header):
    """GET_KV_CONFIG 101."""

    namespace: str
    key: str


class GetKVConfigResponseHeader(Header):
    """Answer to 101."""

    value: str | None = None


class DeleteKVConfigHeader(Header):
    """DELETE_KV_CONFIG 102."""

    namespace: str
    key: str


class GetKVListHeader(Header):
    """GET_KVLIST_BY_NAMESPACE 219; the answer's body is a KVTable."""

    namespace: str
