"""RocketMQ 5.3.3's metrics: name, kind, labels beside the common ones, bounds of histograms.

Names are without `_total`, which Prometheus adds to counters. RocketMQ's names of controllers have
no prefix.
"""

from typing import NamedTuple

from epochmq.observe.families import COUNTER, GAUGE, HISTOGRAM

KIB, MIB = 1024, 1024 * 1024


class Specified(NamedTuple):
    """One metric of RocketMQ's."""

    kind: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


_SENT = ("topic", "message_type", "is_system")
_OUT = ("topic", "consumer_group", "is_system", "is_retry")
"""`is_retry` only for POP."""
_LAG = ("consumer_group", "topic", "is_retry", "is_system")
_STORE = ("storage_type", "storage_medium")
_CREATED = ("is_system", "invocation_status")
_CREATE_MS = (10, 100, 1_000, 3_000, 5_000)
_REVIVE = ("consumer_group", "topic", "revive_message_type")
_DLEDGER = ("dledger_operation", "dLedger_operation_status")
_CONTROLLER_US = (*(step * 10**power for power in range(7) for step in (1, 3, 5)), 10**7)

BROKER = {
    "messages_in": Specified(COUNTER, _SENT),
    "throughput_in": Specified(COUNTER, _SENT),
    "message_size": Specified(HISTOGRAM, _SENT, (KIB, 4 * KIB, 512 * KIB, MIB, 2 * MIB, 4 * MIB)),
    "messages_out": Specified(COUNTER, _OUT),
    "throughput_out": Specified(COUNTER, _OUT),
    "send_to_dlq_messages": Specified(COUNTER, ("consumer_group", "topic", "is_system")),
    "commit_messages": Specified(COUNTER, ("topic",)),
    "rollback_messages": Specified(COUNTER, ("topic",)),
    "finish_message_latency_milliseconds": Specified(
        HISTOGRAM, ("topic",), (5, 60, 600, 3_600, 43_200, 86_400)
    ),
    "half_messages": Specified(GAUGE, ("topic",)),
    "topic_create_execution_time_milliseconds": Specified(HISTOGRAM, _CREATED, _CREATE_MS),
    "consumer_group_create_execution_time_milliseconds": Specified(HISTOGRAM, _CREATED, _CREATE_MS),
    "consumer_lag_messages": Specified(GAUGE, _LAG),
    "consumer_lag_latency_milliseconds": Specified(GAUGE, _LAG),
    "consumer_inflight_messages": Specified(GAUGE, _LAG),
    "consumer_queueing_latency_milliseconds": Specified(GAUGE, _LAG),
    "consumer_ready_messages": Specified(GAUGE, _LAG),
    "producer_connections": Specified(GAUGE, ("language", "version", "protocol_type")),
    "consumer_connections": Specified(
        GAUGE,
        ("consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"),
    ),
    "processor_watermark": Specified(GAUGE, ("processor",)),
    "broker_permission": Specified(GAUGE),
    "topic_number": Specified(GAUGE),
    "consumer_group_number": Specified(GAUGE),
    "rpc_latency_milliseconds": Specified(
        HISTOGRAM,
        ("protocol_type", "request_code", "response_code", "is_long_polling", "result"),
        (1, 3, 5, 7, 10, 100, 1_000, 2_000, 3_000),
    ),
    "storage_size_bytes": Specified(GAUGE, _STORE),
    "storage_flush_behind_bytes": Specified(GAUGE, _STORE),
    "storage_dispatch_behind_bytes": Specified(GAUGE, _STORE),
    "storage_message_reserve_time_milliseconds": Specified(GAUGE, _STORE),
    "timer_enqueue_lag": Specified(GAUGE),
    "timer_dequeue_lag": Specified(GAUGE),
    "timer_enqueue_latency_milliseconds": Specified(GAUGE),
    "timer_dequeue_latency_milliseconds": Specified(GAUGE),
    "timing_messages": Specified(GAUGE, ("topic",)),
    "timer_enqueue": Specified(COUNTER, ("topic",)),
    "timer_dequeue": Specified(COUNTER, ("topic",)),
    "timer_message_snapshot": Specified(GAUGE, ("timer_bound_s",)),
    "delay_message_latency_seconds": Specified(
        HISTOGRAM, ("topic",), (60, 600, 3_600, 43_200, 86_400, 259_200)
    ),
    "pop_buffer_scan_time_consume_milliseconds": Specified(
        HISTOGRAM, (), (1, 10, 100, 1_000, 2_000, 3_000)
    ),
    "pop_revive_in_message": Specified(COUNTER, (*_REVIVE, "put_status")),
    "pop_revive_out_message": Specified(COUNTER, (*_REVIVE, "queue_id")),
    "pop_revive_retry_messages": Specified(COUNTER, ("consumer_group", "topic", "put_status")),
    "pop_revive_lag_milliseconds": Specified(GAUGE, ("queue_id",)),
    "pop_revive_latency_milliseconds": Specified(GAUGE, ("queue_id",)),
    "pop_offset_buffer_size": Specified(GAUGE),
    "pop_checkpoint_buffer_size": Specified(GAUGE),
}
"""Without the prefix `rocketmq_`, and without the metrics of RocksDB and of tiered storage."""

NOT_MEASURED = {"processor_watermark"}
"""docs/OPERATING.md says why: there are no thread pools."""

SNAPSHOT_BOUNDS_S = ("5", "60", "300", "900", "3600", "14400", "28800", "86400")

CONTROLLER = {
    "role": Specified(GAUGE),
    "dledger_disk_usage_bytes": Specified(GAUGE),
    "active_broker_num": Specified(GAUGE, ("cluster", "broker_set")),
    "request": Specified(COUNTER, ("request_type", "request_handle_status")),
    "dledger_op": Specified(COUNTER, _DLEDGER),
    "election": Specified(COUNTER, ("election_result",)),
    "request_latency_microseconds": Specified(HISTOGRAM, ("request_type",), _CONTROLLER_US),
    "dledger_op_latency_microseconds": Specified(HISTOGRAM, _DLEDGER, _CONTROLLER_US),
}
