"""Bodies about the state of clients and brokers at run time: 307, 309, 315."""

from msgspec import UNSET, field

from epochmq.model.group import SubscriptionData
from epochmq.wire.bodies.body import Body, MaybeText, camel_but

PROP_NAMESERVER_ADDR = "PROP_NAMESERVER_ADDR"
PROP_THREADPOOL_CORE_SIZE = "PROP_THREADPOOL_CORE_SIZE"
PROP_CONSUME_ORDERLY = "PROP_CONSUMEORDERLY"
PROP_CONSUME_TYPE = "PROP_CONSUME_TYPE"
PROP_CLIENT_VERSION = "PROP_CLIENT_VERSION"
PROP_CONSUMER_START_TIMESTAMP = "PROP_CONSUMER_START_TIMESTAMP"
"""Keys of ConsumerRunningInfo.properties."""

CR_SUCCESS = "CR_SUCCESS"
CR_LATER = "CR_LATER"
CR_ROLLBACK = "CR_ROLLBACK"
CR_COMMIT = "CR_COMMIT"
CR_THROW_EXCEPTION = "CR_THROW_EXCEPTION"
CR_RETURN_NULL = "CR_RETURN_NULL"
"""Values of ConsumeDirectlyResult.consume_result."""


class ProcessQueueInfo(Body, rename=camel_but(cached_msg_size_in_mib="cachedMsgSizeInMiB")):
    """The state of one queue in a push consumer. Times are Unix ms. RocketMQ spells it `droped`."""

    commit_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_count: int = 0
    cached_msg_size_in_mib: int = 0
    transaction_msg_min_offset: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_count: int = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    droped: bool = False
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0


class PopProcessQueueInfo(Body):
    """The state of one queue in a POP consumer."""

    wait_ack_count: int = 0
    droped: bool = False
    last_pop_timestamp: int = 0


class ConsumeStatus(
    Body,
    rename=camel_but(
        pull_rt="pullRT",
        pull_tps="pullTPS",
        consume_rt="consumeRT",
        consume_ok_tps="consumeOKTPS",
        consume_failed_tps="consumeFailedTPS",
    ),
):
    """Rates of one topic in one client; response times are milliseconds."""

    pull_rt: float = 0.0
    pull_tps: float = 0.0
    consume_rt: float = 0.0
    consume_ok_tps: float = 0.0
    consume_failed_tps: float = 0.0
    consume_failed_msgs: int = 0


class ConsumerRunningInfo(Body):
    """Answer to GET_CONSUMER_RUNNING_INFO 307. `mq_table` and `mq_pop_table` are keyed by queue."""

    properties: dict[str, str] = {}
    subscription_set: list[SubscriptionData] = []
    mq_table: dict[str, ProcessQueueInfo] = {}
    mq_pop_table: dict[str, PopProcessQueueInfo] = {}
    status_table: dict[str, ConsumeStatus] = {}
    user_consumer_info: dict[str, str] = {}
    jstack: MaybeText = UNSET


class ConsumeDirectlyResult(Body):
    """Answer to CONSUME_MESSAGE_DIRECTLY 309. RocketMQ spells it `spentTimeMills`; it is
    milliseconds.
    """

    order: bool = False
    auto_commit: bool = True
    consume_result: MaybeText = UNSET
    remark: MaybeText = UNSET
    spent_time_mills: int = 0


class BrokerStatsItem(Body):
    """A statistic over one period: sum, per second, and average per call."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


class BrokerStatsData(Body):
    """Answer to VIEW_BROKER_STATS_DATA 315."""

    stats_minute: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = field(default_factory=BrokerStatsItem)
