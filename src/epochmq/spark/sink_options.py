"""Parses and checks the options of the sink `format("rocketmq")`.

`SINK_ROWS` lists the options; docs/PIPELINE.md, "Writing", describes them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from epochmq.base.errors import Refused, UsageError
from epochmq.base.limits import MESSAGE_BYTES_MAX
from epochmq.client.aio.name_server_list import check_name_servers
from epochmq.model.delay_levels import DEFAULT_TEXT, LEVELS_MAX
from epochmq.model.delay_levels import parse as parse_levels
from epochmq.model.names import NOT_SENDABLE_TOPICS, check_group, check_topic
from epochmq.runtime.address_map import AddressMap
from epochmq.runtime.tls import OutgoingTls
from epochmq.spark.option_table import (
    CONNECTION_ROWS,
    SparkOption,
    address_map,
    choice,
    connection_of,
    flag,
    integer,
    milliseconds,
    names,
    parse_options,
    size_bytes,
    text,
)

WHAT = 'writing to format("rocketmq")'
EFFECTIVELY_ONCE = "effectively-once"
AT_LEAST_ONCE = "at-least-once"
SINK_ID_LENGTH_MAX = 120
ROWS_MAX = 4_096
_SPARKS_OWN = frozenset({"path", "checkpointlocation", "queryname"})
"""Options that Spark passes to every sink, in lower case."""


def _checked(check: Callable[[str], None]) -> Callable[[str], str]:
    def parse(value: str) -> str:
        try:
            check(value)
        except Refused as error:
            raise ValueError(error.remark) from None
        return value

    return parse


def _sendable(topic: str) -> None:
    check_topic(topic)
    if topic in NOT_SENDABLE_TOPICS:
        raise Refused(1, "it belongs to the brokers; nobody may write to it")


def _sink_id(value: str) -> str:
    if len(value) > SINK_ID_LENGTH_MAX or not value.isprintable():
        raise ValueError(f"it must be 1 to {SINK_ID_LENGTH_MAX} printable characters")
    return text(value)


SINK_ROWS: tuple[SparkOption, ...] = (
    SparkOption("nameServer", text, None, "host:port;host:port of the name servers", "namesrvAddr"),
    SparkOption("topic", _checked(_sendable), "", "topic of rows that have no column topic"),
    SparkOption(
        "guarantee",
        choice(EFFECTIVELY_ONCE, AT_LEAST_ONCE),
        EFFECTIVELY_ONCE,
        "whether EpochMQ brokers drop what a repeated batch brings again",
    ),
    SparkOption("sinkId", _sink_id, "", "names this sink to brokers; a stream adds its query's id"),
    SparkOption("batchId", integer(0), None, "number of a batch write; rises from write to write"),
    SparkOption("producerGroup", _checked(check_group), "SPARK_SINK", "group that brokers show"),
    SparkOption("batchSize", integer(1, ROWS_MAX), 512, "most rows of a request; 1 sends singly"),
    SparkOption("batchBytes", size_bytes, 512 << 10, "most bytes of bodies in a request"),
    SparkOption("bufferBytes", size_bytes, 32 << 20, "bytes of bodies a task holds unacknowledged"),
    SparkOption("maxMessageBytes", size_bytes, MESSAGE_BYTES_MAX, "a larger body is an error"),
    SparkOption("sendTimeoutMs", milliseconds, 3_000, "longest wait for one answer"),
    SparkOption("failoverTimeoutMs", milliseconds, 60_000, "longest wait for a failover"),
    SparkOption("orderBy", names, (), "columns that each partition is sorted by first"),
    SparkOption("orderByBytes", size_bytes, 256 << 20, "most bytes of a partition to be sorted"),
    SparkOption(
        "delayLevels",
        integer(1, LEVELS_MAX),
        len(parse_levels(DEFAULT_TEXT)),
        "how many levels the brokers' messageDelayLevel has; a higher delayTimeLevel is an error",
    ),
    SparkOption(
        "createTopics",
        flag,
        True,
        "false: a topic that is not there is an error; true: the brokers decide"
        " (autoCreateTopicEnable)",
    ),
    SparkOption("addressMap", address_map, None, "registered=reachable addresses of servers"),
    *CONNECTION_ROWS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """All options of one write, checked. Plain values, so that it can travel to executors."""

    name_server: str
    topic: str
    drops_repeats: bool
    sink_id: str
    batch_id: int | None
    producer_group: str
    batch_size: int
    batch_bytes: int
    buffer_bytes: int
    max_message_bytes: int
    send_timeout_ms: int
    failover_timeout_ms: int
    order_by: tuple[str, ...]
    order_by_bytes: int
    delay_levels: int
    create_topics: bool
    tls: OutgoingTls
    address_map: AddressMap | None


def parse_sink(given: Mapping[str, str]) -> SinkOptions:
    """Parse the options of a write; raises one `UsageError` in one line for all that is wrong."""
    ours = {key: value for key, value in given.items() if key.lower() not in _SPARKS_OWN}
    values = parse_options(ours, SINK_ROWS, WHAT)
    if values["nameServer"] is None:
        raise UsageError("option nameServer is missing; set it to host:port, as 127.0.0.1:9876")
    check_name_servers(values["nameServer"])
    if values["batchBytes"] > MESSAGE_BYTES_MAX:
        raise UsageError(f"batchBytes is more than {MESSAGE_BYTES_MAX}, a broker's limit")
    return SinkOptions(
        name_server=values["nameServer"],
        topic=values["topic"],
        drops_repeats=values["guarantee"] == EFFECTIVELY_ONCE,
        sink_id=values["sinkId"],
        batch_id=values["batchId"],
        producer_group=values["producerGroup"],
        batch_size=values["batchSize"],
        batch_bytes=values["batchBytes"],
        buffer_bytes=values["bufferBytes"],
        max_message_bytes=values["maxMessageBytes"],
        send_timeout_ms=values["sendTimeoutMs"],
        failover_timeout_ms=values["failoverTimeoutMs"],
        order_by=values["orderBy"],
        order_by_bytes=values["orderByBytes"],
        delay_levels=values["delayLevels"],
        create_topics=values["createTopics"],
        tls=connection_of(values),
        address_map=values["addressMap"],
    )
