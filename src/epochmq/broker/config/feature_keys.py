"""Options of the broker's smaller features: one class for each, all bases of `BrokerOptions`."""

from dataclasses import dataclass

from epochmq.base import limits
from epochmq.base.options import option
from epochmq.runtime.listen import BACKLOG
from epochmq.runtime.metrics_options import MetricsOptions
from epochmq.runtime.tls import TlsOptions

# Transaction keys ----------------------------------------------------------------------------
# Options of transactional messages, under RocketMQ's names.


_DAY_MS = 86_400_000


@dataclass(frozen=True, kw_only=True)
class TransactionKeys:
    reject_transaction_message: bool = option(
        False, "Refuse messages that begin a transaction.", mutable=True
    )
    transaction_time_out: int = option(
        6000,
        "A producer is asked about a transaction that is silent for this long, unless the message"
        " says otherwise (CHECK_IMMUNITY_TIME_IN_SECONDS).",
        mutable=True,
        low=0,
        high=_DAY_MS,
        unit="ms",
    )
    transaction_check_interval: int = option(
        30_000,
        "How often silent transactions are looked for.",
        mutable=True,
        low=100,
        high=_DAY_MS,
        unit="ms",
    )
    transaction_check_max: int = option(
        15,
        "A transaction asked for so often is given up: its message stays in"
        " TRANS_CHECK_MAX_TIME_TOPIC.",
        mutable=True,
        low=0,
        high=1_000_000,
    )
    transaction_op_msg_max_size: int = option(
        4096,
        "Transactions that are over are named together, in op messages of at most this size.",
        mutable=True,
        low=64,
        high=1024 * 1024,
        unit="bytes",
    )
    transaction_op_batch_interval: int = option(
        3000,
        "How long one that is over waits for others to be named together with.",
        mutable=True,
        low=0,
        high=60_000,
        unit="ms",
    )


# Timer keys ----------------------------------------------------------------------------------
# Options of messages for an exact time, under RocketMQ's names.


_DAY_SEC = 86_400
_INT_MAX = 2**31 - 1
_MIB = 1024 * 1024
PRECISIONS_MS = (100, 200, 500, 1000)
"""The allowed precisions of the timer, as in RocketMQ; a second is a multiple of each."""


@dataclass(frozen=True, kw_only=True)
class TimerKeys:
    timer_wheel_enable: bool = option(
        True, "Take messages that are to be delivered at an exact time."
    )
    timer_precision_ms: int = option(
        1000, "Width of a slot of the wheel: 1000, 500, 200 or 100.", low=100, high=1000, unit="ms"
    )
    timer_max_delay_sec: int = option(
        3 * _DAY_SEC,
        "A message for later than this is refused.",
        mutable=True,
        low=1,
        high=3650 * _DAY_SEC,
        unit="s",
    )
    timer_roll_window_slot: int = option(
        2 * _DAY_SEC,
        "A message that is this many slots away or more waits in pieces.",
        low=4,
        high=4 * _DAY_SEC,
    )
    timer_congest_num_each_slot: int = option(
        _INT_MAX,
        "From here on more and more messages for one slot are refused, from twice as many all.",
        mutable=True,
        low=1,
        high=_INT_MAX,
    )
    timer_flush_interval_ms: int = option(
        1000, "How often the wheel and its checkpoint are saved.", low=10, high=3_600_000, unit="ms"
    )
    mapped_file_size_timer_log: int = option(
        100 * _MIB, "Size of one file of the timer log.", low=52, high=1024 * _MIB, unit="bytes"
    )
    timer_stop_enqueue: bool = option(
        False, "Leave messages in the timer topic, off the wheel.", mutable=True
    )
    recall_message_enable: bool = option(
        False,
        "Take messages for an exact time back on demand (RECALL_MESSAGE); answers to their sends"
        " bring a handle for it.",
        mutable=True,
    )
    allow_recall_when_broker_not_writeable: bool = option(
        True, "With brokerPermission without writing, too.", mutable=True
    )
    timer_stop_dequeue: bool = option(False, "Deliver nothing that is due.", mutable=True)


def timer_problems(keys: TimerKeys) -> list[str]:
    """Return the problems of values that are valid alone, but not together."""
    if keys.timer_precision_ms not in PRECISIONS_MS:
        wanted = ", ".join(map(str, PRECISIONS_MS))
        return [f"option 'timerPrecisionMs' must be one of {wanted}"]
    return []


# Pop keys ------------------------------------------------------------------------------------
# Options of POP, under RocketMQ's names.


_HOUR_MS = 3_600_000


@dataclass(frozen=True, kw_only=True)
class PopKeys:
    # Messages that are popped (POP).
    revive_queue_num: int = option(8, "Queues of the POP revive topic.", low=1, high=1024)
    pop_polling_size: int = option(
        1024, "Pops of one group that may wait for one queue, or for all.", low=1, high=100_000
    )
    pop_polling_map_size: int = option(
        100_000, "Groups and queues that pops may wait for.", low=1, high=1_000_000
    )
    max_pop_polling_size: int = option(
        100_000, "Pops that may wait in all.", low=1, high=limits.LONG_POLLS_MAX
    )
    pop_from_retry_probability: int = option(
        20, "Of 100 pops, how many look for retries first.", mutable=True, low=0, high=100
    )
    enable_retry_topic_v2: bool = option(
        False,
        "Name new POP retry topics %RETRY%group+topic, not %RETRY%group_topic.",
        mutable=True,
    )
    retrieve_message_from_pop_retry_topic_v1: bool = option(
        True, "With enableRetryTopicV2, read the retry topics of the first kind, too.", mutable=True
    )
    enable_pop_buffer_merge: bool = option(
        False,
        "Keep young check points in memory: what is acknowledged soon is never written.",
        mutable=True,
    )
    pop_ck_stay_buffer_time: int = option(
        10_000, "How long a check point stays in memory.", low=0, high=_HOUR_MS, unit="ms"
    )
    pop_ck_stay_buffer_time_out: int = option(
        3_000, "How long before it is due it is written.", low=0, high=_HOUR_MS, unit="ms"
    )
    pop_ck_max_buffer_size: int = option(
        200_000, "Check points that may stay in memory.", low=0, high=limits.POP_CHECK_POINTS_MAX
    )
    pop_ck_offset_max_queue_size: int = option(
        20_000, "Check points of one queue that may stay in memory.", mutable=True, low=0,
        high=limits.POP_CHECK_POINTS_MAX,
    )  # fmt: skip


# Lag keys ------------------------------------------------------------------------------------
# How the metrics count the messages that a consumer group has not consumed.


@dataclass(frozen=True, kw_only=True)
class LagKeys:
    # Lag of consumer groups in the metrics.
    estimate_accumulation: bool = option(
        True,
        "Count only the messages whose tag the group subscribes to; a long backlog is estimated.",
        mutable=True,
    )
    use_static_subscription: bool = option(
        False,
        "With estimateAccumulation: use the subscription in the group's configuration, not that of"
        " its consumers.",
        mutable=True,
    )
    max_consume_queue_scan: int = option(
        20_000,
        "With estimateAccumulation: units of a queue that are examined for a group.",
        mutable=True,
        low=1,
        high=1_000_000,
    )
    sample_count_threshold: int = option(
        5_000,
        "With estimateAccumulation: so many matching units of a queue are enough for an estimate.",
        mutable=True,
        low=1,
        high=1_000_000,
    )


# Acting keys ---------------------------------------------------------------------------------
# Options of slave acting master (RIP-32), under RocketMQ's names; not used with controllers.
#
# The defaults are RocketMQ's. With them alone the feature does nothing useful, so the broker logs
# at start what is missing (H12).


@dataclass(frozen=True, kw_only=True)
class ActingKeys:
    # Slave acting master (RIP-32), without controllers.
    enable_slave_acting_master: bool = option(
        False, "The slave with the smallest id is acting master while the group has none (RIP-32)."
    )
    compatible_with_old_name_srv: bool = option(
        True, "Ask and tell name servers by requests that those of RocketMQ 4 know as well."
    )
    broker_not_active_timeout_millis: int = option(
        10_000,
        "With enableSlaveActingMaster: name servers forget this broker after so long a silence.",
        low=100,
        high=_HOUR_MS,
        unit="ms",
    )
    sync_broker_member_group_period: int = option(
        1000,
        "With enableSlaveActingMaster: how often name servers are asked who is in the group.",
        low=10,
        high=_HOUR_MS,
        unit="ms",
    )
    skip_pre_online: bool = option(
        False,
        "Be online at once: do not take over first what the group did while this broker was gone.",
    )
    sync_master_flush_offset_when_startup: bool = option(
        False, "A slave remembers where its master's log ended at the master's start; shown only."
    )
    total_replicas: int = option(
        1, "Members that the group is meant to have, the master among them.", low=1, high=64
    )


def acting_warnings(keys: ActingKeys, *, is_slave: bool, slave_read: bool) -> list[str]:
    """Return the settings that make slave acting master useless on this broker, one line each."""
    if not keys.enable_slave_acting_master:
        return []
    lines = []
    if keys.total_replicas == 1:
        lines.append(
            "enableSlaveActingMaster with totalReplicas=1: a master that returns delivers from its"
            " old progress, and takes back consumer offsets only, a moment later; set totalReplicas"
            " to the members of the group"
        )
    if is_slave and not slave_read:
        lines.append(
            "enableSlaveActingMaster with slaveReadEnable=false: nobody can read here while this"
            " broker is acting master; set slaveReadEnable=true"
        )
    return lines


# Escape keys ---------------------------------------------------------------------------------
# Options of the escape bridge to other groups (RIP-32), under RocketMQ's names.


@dataclass(frozen=True, kw_only=True)
class EscapeKeys:
    # What the acting master forwards to other groups.
    enable_remote_escape: bool = option(
        False,
        "The acting master forwards delayed, timed, transactional and popped messages to masters"
        " of other groups of its cluster.",
    )


def escape_warnings(keys: EscapeKeys, *, is_acting: bool) -> list[str]:
    """Return the settings that make acting useless on this broker, one line each (H12)."""
    if not is_acting or keys.enable_remote_escape:
        return []
    return [
        "enableSlaveActingMaster with enableRemoteEscape=false: while this broker is acting"
        " master, delayed, timed and transactional messages wait and pops are refused, unless"
        " another master is in the same process; set enableRemoteEscape=true"
    ]


# Lock keys -----------------------------------------------------------------------------------
# Options of queue locks, under RocketMQ's names.


@dataclass(frozen=True, kw_only=True)
class LockKeys:
    lock_in_strict_mode: bool = option(
        False,
        "true: order before availability. An ordered consumer gets a queue only by the votes of"
        " more than half of totalReplicas, so two never have it at one time, and with two replicas"
        " both must live. false: the broker that is asked decides alone, so ordered consumption"
        " goes on with any replica, and around a change of master two may have one queue.",
    )


def lock_problems(*, strict: bool, replicas: int, acting: bool) -> list[str]:
    """Return the problems of the values taken together."""
    if strict and replicas > 1 and not acting:
        return [
            "option 'lockInStrictMode' with totalReplicas > 1 needs enableSlaveActingMaster: the"
            " members to be asked are known by it"
        ]
    return []


# Assign keys ---------------------------------------------------------------------------------
# Options of queue assignment by the broker.


@dataclass(frozen=True, kw_only=True)
class AssignKeys:
    server_load_balancer_enable: bool = option(
        True, "Share queues out when a client asks; off gives each client all.", mutable=True
    )
    default_message_request_mode: str = option(
        "PULL",
        "How a group reads a topic unless `setConsumeMode` says it.",
        choices=("PULL", "POP"),
    )
    default_pop_share_queue_num: int = option(
        -1,
        "With POP: own queues and those of so many next members; 0 and less is all.",
        mutable=True,
        low=-1,
        high=1_000_000,
    )
    load_balance_poll_name_server_interval: int = option(
        30_000, "How often routes for shares are asked for.", low=1_000, high=3_600_000, unit="ms"
    )


# Server keys ---------------------------------------------------------------------------------
# Options of the broker's listening sockets: RocketMQ's netty server keys that apply here.
#
# EpochMQ differs in one default: `bindAddress` is loopback, because an open port is unprotected
# until access control is switched on.


PORT_MAX = 65535


@dataclass(frozen=True, kw_only=True)
class ServerKeys(TlsOptions, MetricsOptions):
    bind_address: str = option(
        "127.0.0.1", "Address to listen on; 0.0.0.0 is every interface (RocketMQ's default)."
    )
    listen_port: int = option(10911, "Main port of the broker.", low=0, high=PORT_MAX)
    fast_listen_port: int = option(
        0,
        "Second port, without pulls; 0 is listenPort - 2 as in RocketMQ, -1 is none. EpochMQ's.",
        low=-1,
        high=PORT_MAX,
    )
    health_listen_port: int = option(
        0,
        "Port of the health endpoint, HTTP with the paths /-/master, /-/serving and /-/live; 0 is"
        " none. EpochMQ's own.",
        low=0,
        high=PORT_MAX,
    )
    server_channel_max_idle_time_seconds: int = option(
        120, "A connection silent for this long is closed.", low=1, high=86_400, unit="s"
    )
    server_socket_backlog: int = option(
        BACKLOG, "Connections that may wait to be accepted.", low=1, high=65_535
    )
    isolate_log_enable: bool = option(
        False, "In a container: what is logged of this broker goes to a file of its own as well."
    )
