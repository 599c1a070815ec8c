"""Headers of requests to clients, of administration, and of replication helpers.

220 to 223, 307, 309, 26, 315, 328, 355, 902, 903, 906, 908.
"""

from epochmq.wire.header import I32, I64, Header, RpcHeader, TopicHeader


class ResetOffsetHeader(TopicHeader):
    """INVOKE_BROKER_TO_RESET_OFFSET 222, and RESET_CONSUMER_CLIENT_OFFSET 220 (to clients).

    `timestamp` is Unix milliseconds, -1 for the end. With `queueId`, `offset` sets one queue (5.x).
    """

    group: str
    topic: str
    timestamp: I64
    isForce: bool = False
    queueId: I32 | None = None
    offset: I64 | None = None


class GetConsumerStatusHeader(TopicHeader):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS 223; the broker sends it to clients as 221."""

    topic: str
    group: str
    clientAddr: str | None = None


class GetConsumerRunningInfoHeader(RpcHeader):
    """GET_CONSUMER_RUNNING_INFO 307: the broker forwards it to client `clientId`."""

    consumerGroup: str
    clientId: str
    jstackEnable: bool | None = None


class ConsumeDirectlyHeader(TopicHeader):
    """CONSUME_MESSAGE_DIRECTLY 309: asks one client to consume one message now.

    The request of an administrator has `msgId`; the broker adds the stored message as the body.
    """

    consumerGroup: str
    clientId: str | None = None
    msgId: str | None = None
    brokerName: str | None = None
    topic: str | None = None
    topicSysFlag: I32 | None = None
    groupSysFlag: I32 | None = None


class GetBrokerConfigResponseHeader(Header):
    """Answer to GET_BROKER_CONFIG 26: the DataVersion of the configuration as JSON."""

    version: str


class ViewBrokerStatsHeader(Header):
    """VIEW_BROKER_STATS_DATA 315: one statistics item, for example TOPIC_PUT_NUMS of a topic."""

    statsName: str
    statsKey: str


class AddBrokerHeader(Header):
    """ADD_BROKER 902 (to a container)."""

    configPath: str | None = None


class RemoveBrokerHeader(Header):
    """REMOVE_BROKER 903 (to a container)."""

    brokerName: str
    brokerClusterName: str
    brokerId: I64


# Ha headers ----------------------------------------------------------------------------------
# Headers of the replication helpers: 906, 908.


class ExchangeHAInfoHeader(Header):
    """EXCHANGE_BROKER_HA_INFO 906, request and answer. Without `masterHaAddress` it only asks.

    `handOver` is EpochMQ's: with False the master only announces itself, and an acting master goes
    on. Otherwise the acting master steps down before it answers.
    """

    masterHaAddress: str | None = None
    masterFlushOffset: I64 | None = None
    masterAddress: str | None = None
    handOver: bool | None = None


class ExchangeHAInfoAnswer(Header):
    """The answer of an EpochMQ broker to a master.

    Attributes:
        masterFlushOffset: the flush offset of the master, in bytes.
        steppedDown: no broker is acting master here any more.
        stoodIn: the request only asked, and a broker is acting master, or was and the master took
            nothing over since.
        standsIn: the request only asked, and a broker is acting master now.
    """

    masterFlushOffset: I64 | None = None
    steppedDown: bool | None = None
    stoodIn: bool | None = None
    standsIn: bool | None = None


class MasterStateHeader(Header):
    """Answer to MASTER_STATE 34008. `stamp` changes with each other field.

    `writable`: the broker accepts sends. `acting`: it is an acting master (RIP-32). `epoch` is the
    master's epoch; 0 without controllers.
    """

    stamp: str
    writable: bool
    acting: bool
    epoch: I64
    brokerName: str


class ResetMasterFlushOffsetHeader(Header):
    """RESET_MASTER_FLUSH_OFFSET 908."""

    masterFlushOffset: I64
