"""Parses and checks the options of the source `format("rocketmq")`.

`SOURCE_ROWS` lists the options; docs/PIPELINE.md, "Reading", describes them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from epochmq.base.errors import Refused, UsageError
from epochmq.client.aio.name_server_list import check_name_servers
from epochmq.model.names import HALF_TOPIC, OP_HALF_TOPIC, check_group, check_topic
from epochmq.model.queue_offsets import check_offset
from epochmq.model.tags import split_expression
from epochmq.runtime.tls import OutgoingTls
from epochmq.spark.decode_bodies import AS_STORED, BAD_BODIES
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
from epochmq.spark.spark_offsets import EARLIEST, LATEST, load
from epochmq.spark.typed_options import TYPED_ROWS, TypedColumns, typed_columns
from epochmq.tables.iceberg import DEFAULT_NAME

WHAT = 'format("rocketmq")'
PARTITIONS_MAX = 100_000
ROWS_MAX = 100_000
READ_BYTES_MAX = 8 << 20
_EPOCH_START = datetime.fromisoformat("1970-01-01T00:00:00+00:00")

Table = Mapping[str, Mapping[str, int]]
"""By topic, then by queue: `brokerName:queueId`, or `queueId` for that queue at every broker."""


def _json(value: str) -> Any:
    try:
        return load(value)
    except UsageError as error:
        raise ValueError(str(error)) from None


def wall_ms(value: str) -> int:
    """Parse a time in ms since 1970, or in ISO 8601 with a zone, such as `2026-11-22T07:00:00Z`.

    Returns ms since 1970. Raises `ValueError` for other texts.
    """
    if value.isascii() and value.isdigit() and len(value) < 15:
        return int(value)
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("it is neither ms since 1970 nor a time as 2026-11-22T07:00:00Z") from None
    if when.tzinfo is None:
        raise ValueError("it has no zone; write 2026-11-22T07:00:00Z, or +01:00 at its end")
    return int((when - _EPOCH_START).total_seconds() * 1000)


def _per_queue(low: int) -> Any:
    """Return a parser of {"topic": {"broker-a:0": number}} for numbers of at least `low`."""

    def parse(value: str) -> Table:
        table = _json(value)
        if not isinstance(table, dict) or not all(isinstance(q, dict) for q in table.values()):
            raise ValueError('it must be JSON as {"topic": {"broker-a:0": 12}}')
        for topic, queues in table.items():
            for queue, number in queues.items():
                try:
                    check_offset(topic, queue, number, low)
                except UsageError as error:
                    raise ValueError(str(error)) from None
        return table

    return parse


def _offsets(value: str) -> "str | Table":
    if value.lower() in ("earliest", "latest"):
        return value.lower()
    if not value.startswith("{"):
        raise ValueError('it must be earliest, latest, or JSON as {"topic": {"broker-a:0": 12}}')
    table: Table = _per_queue(EARLIEST)(value)
    return table


def _assign(value: str) -> Mapping[str, tuple[str, ...]]:
    table = _json(value)
    if not isinstance(table, dict) or not table:
        raise ValueError('it must be JSON as {"topic": ["broker-a:0", "broker-a:1"]}')
    found = {}
    for topic, queues in table.items():
        if not isinstance(queues, list) or not queues or not all(_is_queue(q) for q in queues):
            raise ValueError('it must list queues, as {"topic": ["broker-a:0", 1]}')
        found[topic] = tuple(dict.fromkeys(str(queue) for queue in queues))
    return found


def _is_queue(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"it is not a regular expression ({error})") from None
    return text(value)


def _tags(value: str) -> str | None:
    try:
        wanted = split_expression(value)
    except Refused as error:
        raise ValueError(error.remark) from None
    return None if wanted is None else " || ".join(wanted)


def _group(value: str) -> str:
    try:
        check_group(value)
    except Refused as error:
        raise ValueError(error.remark) from None
    return value


SOURCE_ROWS: tuple[SparkOption, ...] = (
    SparkOption("nameServer", text, None, "host:port;host:port of the name servers", "namesrvAddr"),
    SparkOption("subscribe", names, None, "topics, with commas"),
    SparkOption("subscribePattern", _pattern, None, "regular expression of whole topic names"),
    SparkOption("assign", _assign, None, 'queues: {"topic": ["broker-a:0"]}'),
    SparkOption("startingOffsets", _offsets, None, "earliest, latest, or JSON by queue"),
    SparkOption("startingTimestamp", wall_ms, None, "begin at this store time, in all queues"),
    SparkOption(
        "startingOffsetsByTimestamp", _per_queue(0), None, "JSON by queue, store times in ms"
    ),
    SparkOption(
        "startingOffsetsByTimestampStrategy",
        choice("latest", "error"),
        "latest",
        "what to do in a queue without a message at that time or later",
    ),
    SparkOption("startingGroup", _group, None, "begin where this consumer group is"),
    SparkOption("startingEpoch", integer(0, 2**31 - 1), None, "begin at this master epoch"),
    SparkOption("endingOffsets", _offsets, None, "batch: latest or JSON by queue"),
    SparkOption("endingTimestamp", wall_ms, None, "batch: end before this store time"),
    SparkOption("endingOffsetsByTimestamp", _per_queue(0), None, "batch: JSON by queue, ms"),
    SparkOption("maxOffsetsPerTrigger", integer(), None, "most rows of a micro-batch"),
    SparkOption("maxBytesPerTrigger", size_bytes, None, "about the most bytes of a micro-batch"),
    SparkOption("minOffsetsPerTrigger", integer(), None, "fewer rows wait for maxTriggerDelay"),
    SparkOption("maxTriggerDelay", milliseconds, 900_000, "longest wait for minOffsetsPerTrigger"),
    SparkOption("minPartitions", integer(1, PARTITIONS_MAX), 0, "at least so many tasks"),
    SparkOption("maxRecordsPerPartition", integer(), 0, "most rows of a task"),
    SparkOption("failOnDataLoss", flag, True, "whether missing messages end the query"),
    SparkOption("columns", names, None, "the columns wanted, in this order"),
    SparkOption("properties", choice("map", "raw", "none"), "map", "form of column properties"),
    SparkOption("tags", _tags, None, "only these tags, as a || b; filtered by the broker"),
    SparkOption("decompress", flag, True, "whether compressed bodies are decompressed"),
    SparkOption("checkCrc", flag, True, "whether bodies are compared with their checksums"),
    SparkOption(
        "badBodies",
        choice(*BAD_BODIES),
        AS_STORED,
        "what stands for a body that cannot be decompressed: as it is stored, null, or an error",
    ),
    SparkOption("pushdown", flag, True, "filters become ranges, if the session allows it"),
    SparkOption("archive", text, None, "table of the job archive, for messages brokers deleted"),
    SparkOption("archive.name", text, DEFAULT_NAME, "Iceberg: the table in its catalog"),
    SparkOption("archive.catalog", text, None, "Iceberg: catalog, else SQLite in the warehouse"),
    SparkOption("groupId", _group, None, "group whose offsets show how far the query is"),
    SparkOption("readFrom", choice("auto", "master", "follower"), "auto", "which replicas serve"),
    SparkOption("failoverTimeoutMs", milliseconds, 60_000, "longest wait for a failover"),
    SparkOption("pollIntervalMs", milliseconds, 100, "how old known queue ends may be"),
    SparkOption("addressMap", address_map, None, "registered=reachable addresses of servers"),
    SparkOption("maxBytesPerRead", size_bytes, 2 << 20, "size of one read from a broker"),
    SparkOption("rowsPerBatch", integer(1, ROWS_MAX), 2_000, "rows of an Arrow batch"),
    *TYPED_ROWS,
    *CONNECTION_ROWS,
)


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected queues: topics by name, topics by pattern, or single queues."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    queues: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ArchiveAddress:
    """Where an archive is; plain values, which travel to executors."""

    uri: str
    name: str = DEFAULT_NAME
    catalog: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetsOption:
    """Where to begin or end. `kind` says which of the others counts, and is the option's name."""

    kind: str
    word: str = "earliest"
    """`earliest` or `latest`: alone, or for what the rest says nothing about."""
    table: Table = field(default_factory=dict)
    wall_ms: int = 0
    group: str = ""
    epoch: int = 0
    strict: bool = False
    """Whether a time behind the last message is an error."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All options of one read, checked. Plain values, so that it can travel to executors."""

    values: Mapping[str, Any]
    selection: Selection
    start: OffsetsOption | None
    end: OffsetsOption | None
    tls: OutgoingTls
    typed: TypedColumns = field(default_factory=TypedColumns)

    def __getitem__(self, name: str) -> Any:
        """Return the value of the option `name` of `SOURCE_ROWS`."""
        return self.values[name]

    @property
    def archive(self) -> ArchiveAddress | None:
        """The archive that has older messages; None without one."""
        if self.values["archive"] is None:
            return None
        name, catalog = self.values["archive.name"], self.values["archive.catalog"]
        return ArchiveAddress(self.values["archive"], name, catalog)

    @property
    def name_server(self) -> str:
        return str(self.values["nameServer"])


def parse_source(given: Mapping[str, str]) -> SourceOptions:
    """Parse the options of a read; raises one `UsageError` in one line for all that is wrong."""
    values = parse_options(given, SOURCE_ROWS, WHAT)
    if values["nameServer"] is None:
        raise UsageError("option nameServer is missing; set it to host:port, as 127.0.0.1:9876")
    check_name_servers(values["nameServer"])
    if values["maxBytesPerRead"] > READ_BYTES_MAX:
        raise UsageError(f"maxBytesPerRead is more than {READ_BYTES_MAX}, a broker's limit")
    if values["archive"] is not None and not values["decompress"]:
        raise UsageError("decompress=false does not fit archive: it has decompressed bodies")
    selection = _selection(values)
    return SourceOptions(
        values,
        selection,
        _position(values, "starting"),
        _position(values, "ending"),
        connection_of(values),
        typed_columns(values, (*selection.topics, *selection.queues)),
    )


def _one_of(values: Mapping[str, Any], keys: tuple[str, ...]) -> list[str]:
    return [key for key in keys if values.get(key) is not None]


def _selection(values: Mapping[str, Any]) -> Selection:
    keys = _one_of(values, ("subscribe", "subscribePattern", "assign"))
    if len(keys) != 1:
        said = f"{' and '.join(keys)} are given" if keys else "none is given"
        raise UsageError(f"give one of subscribe, subscribePattern and assign: {said}")
    found = Selection(values["subscribe"] or (), values["subscribePattern"], values["assign"] or {})
    for topic in (*found.topics, *found.queues):
        _check_readable(topic)
    return found


def _check_readable(topic: str) -> None:
    try:
        check_topic(topic)
    except Refused as error:
        raise UsageError(error.remark) from None
    if topic in (HALF_TOPIC, OP_HALF_TOPIC):
        raise UsageError(
            f"{topic} holds messages of open transactions, which may never come to be;"
            " read the topic that they are for"
        )


def _position(values: Mapping[str, Any], side: str) -> OffsetsOption | None:
    """Return the position for `side`, `starting` or `ending`; None when no option gives one."""
    kinds = ("Offsets", "Timestamp", "OffsetsByTimestamp", "Group", "Epoch")
    given = _one_of(values, tuple(side + kind for kind in kinds))
    by_group = given in ([f"{side}Offsets", f"{side}Group"], [f"{side}Offsets", f"{side}Epoch"])
    if by_group and isinstance(values[f"{side}Offsets"], str):
        given = given[1:]  # the word applies to queues that the group or epoch has no offset for
    if len(given) > 1:
        raise UsageError(f"give one of {' and '.join(given)}: each says where the read is {side}")
    if not given:
        return None
    offsets = values.get(f"{side}Offsets")
    word = offsets if isinstance(offsets, str) else _default_word(side)
    value = values[given[0]]
    return OffsetsOption(
        given[0].removeprefix(side),
        word,
        table=value if isinstance(value, dict) else {},
        wall_ms=value if given[0] == f"{side}Timestamp" else 0,
        group=value if given[0] == f"{side}Group" else "",
        epoch=value if given[0] == f"{side}Epoch" else 0,
        strict=values["startingOffsetsByTimestampStrategy"] == "error" and side == "starting",
    )


def _default_word(side: str) -> str:
    return "earliest" if side == "starting" else "latest"


def check_batch(options: SourceOptions) -> None:
    """Raise `UsageError` for a position that makes a batch read empty."""
    start, end = options.start, options.end
    if start is not None and start.kind == "Offsets" and not start.table and start.word == "latest":
        raise UsageError("a batch read that begins at latest is empty; begin at earliest")
    if end is not None and end.kind == "Offsets" and not end.table and end.word == "earliest":
        raise UsageError("a batch read that ends at earliest is empty; end at latest")
    for position, word, number in ((start, "latest", LATEST), (end, "earliest", EARLIEST)):
        table = position.table if position is not None and position.kind == "Offsets" else {}
        if any(offset == number for queues in table.values() for offset in queues.values()):
            raise UsageError(f"a batch read cannot use {number} ({word}) there: it would be empty")


def check_stream(options: SourceOptions) -> None:
    """Raise `UsageError` for an ending position, which a streaming read does not support."""
    if options.end is not None:
        raise UsageError(
            f"ending{options.end.kind} is for batch reads; a stream that reads what is there now"
            " and ends has trigger(availableNow=True)"
        )
