"""Encodes rows as messages: checks and joins the columns of Arrow batches, a column at a time.

Only values that differ by row (ids, sink queues) are computed in Python; the properties of 2,000
rows take about twenty Arrow calls. Every error names its row.
"""

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from epochmq.base.errors import Refused, UsageError
from epochmq.base.limits import MESSAGE_BYTES_MAX, PROPERTIES_BYTES_MAX
from epochmq.model import property_names as names
from epochmq.model.delay_levels import LEVELS_MAX
from epochmq.model.names import NOT_SENDABLE_TOPICS, RETRY, check_topic
from epochmq.model.properties import NAME_END, PAIR_END
from epochmq.spark.encode_columns import check_columns, properties_text

OWN_PROPERTIES_BYTES = 1_024
"""Bytes reserved for properties that the sink and the broker add: ids, region, cluster."""


class SinkRow(msgspec.Struct, gc=False):
    """One message; `text` has its properties without an id, in wire format."""

    topic: str
    body: bytes
    text: str
    key: str | None
    """The ordering key: rows with the same key go to one queue."""
    queue_id: int | None
    broker_name: str | None
    flag: int
    alone: bool
    """Whether it cannot be part of a batch, because it is delayed or for a retry topic."""
    number: int
    """The number of the row in its partition, from 0."""


class Encoder:
    """Encodes the batches of one partition; raises `UsageError` for columns that cannot be
    written.
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        topic: str = "",
        partition: int = 0,
        max_message_bytes: int = MESSAGE_BYTES_MAX,
        delay_levels: int = LEVELS_MAX,
    ) -> None:
        self._names = check_columns(schema, bool(topic))
        self._topic = topic
        self._partition = partition
        self._bytes_max = max_message_bytes
        self._delay_levels = delay_levels
        self._good_topics: set[str] = set()
        self._count = 0

    def rows(self, batch: pa.RecordBatch) -> Iterator[SinkRow]:
        """Yield the messages of the next batch, in its order; raises `UsageError` for an invalid
        row.
        """
        if not batch.num_rows:
            return
        first, self._count = self._count, self._count + batch.num_rows
        columns = _Columns(batch, self._names, first, self._partition)
        bodies = self._bodies(columns)
        topics = self._topics(columns)
        delayed, delays = _delays(columns, self._delay_levels)
        texts = self._texts(columns, delays)
        yield from map(
            SinkRow,
            topics,
            bodies,
            texts,
            columns.texts("orderingKey"),
            columns.values("queueId"),
            columns.values("brokerName") if "queueId" in self._names else repeat(None),
            columns.values("flag", 0),
            self._alone(topics, delayed),
            range(first, self._count),
        )

    def _bodies(self, columns: "_Columns") -> list[bytes]:
        body = columns.array("body" if "body" in self._names else "value")
        if not pa.types.is_binary(body.type):
            body = body.cast(pa.binary())
        size = pc.binary_length(body)
        columns.check(
            pc.fill_null(pc.equal(size, 0), True),
            "has no body; brokers take no empty message: filter such rows out, or give a body",
        )
        over = pc.greater(size, self._bytes_max)
        at = columns.first(over)
        if at is not None:
            raise UsageError(
                f"{columns.row(at)} has a body of {size[at]} bytes, over maxMessageBytes"
                f" = {self._bytes_max}; split it, or store it elsewhere and send a reference"
            )
        found: list[bytes] = body.to_pylist()
        return found

    def _topics(self, columns: "_Columns") -> list[str]:
        if "topic" not in self._names:
            return [self._topic] * len(columns)
        column = columns.array("topic")
        if self._topic:
            column = pc.fill_null(column, self._topic)
        columns.check(
            column.is_null(), "has no topic, and there is no option 'topic' for such rows"
        )
        topics: list[str] = column.to_pylist()
        for topic in set(topics) - self._good_topics:
            self._check_topic(topic, columns.row(topics.index(topic)))
            self._good_topics.add(topic)
        return topics

    def _check_topic(self, topic: str, row: str) -> None:
        try:
            check_topic(topic)
        except Refused as error:
            raise UsageError(f"{row}: {error}") from None
        if topic in NOT_SENDABLE_TOPICS:
            raise UsageError(f"{row}: {topic} belongs to the brokers; nobody may write to it")

    def _alone(self, topics: list[str], delayed: list[bool] | None) -> Iterator[bool]:
        if delayed is not None:
            return map(_either, delayed, topics)
        if "topic" in self._names:
            return map(_is_retry, topics)
        return repeat(_is_retry(self._topic))

    def _texts(self, columns: "_Columns", delays: list[pa.Array]) -> list[str]:
        parts = [*self._named(columns), *delays]
        if not parts:
            return [""] * len(columns)
        # The empty first part, which is never null, keeps Arrow from leaving out rows of nulls.
        start = pa.array([""] * len(columns))
        text = pc.binary_join_element_wise(start, *parts, PAIR_END, null_handling="skip")
        text = pc.ascii_ltrim(text, characters=PAIR_END)
        room = PROPERTIES_BYTES_MAX - OWN_PROPERTIES_BYTES
        columns.check(
            pc.greater(pc.binary_length(text), room),
            f"has more than {room} bytes of properties; move data to the body",
        )
        texts: list[str] = text.to_pylist()
        return texts

    def _named(self, columns: "_Columns") -> Iterator[pa.Array]:
        """Yield `name 0x01 value` of each column that becomes a property, and of the map; else
        null.
        """
        taken = {
            property_name: column
            for column, property_name in _PROPERTY_OF.items()
            if column in self._names
        }
        if "properties" in self._names:
            yield properties_text(columns.array("properties"), frozenset(taken), columns.check)
        for property_name, column in taken.items():
            values = columns.joined(column)
            columns.check(
                pc.match_substring_regex(values, "[\x01\x02]"),
                f"has a control character (0x01 or 0x02) in column {column!r}; remove it",
            )
            yield _pair(property_name, values)


_PROPERTY_OF = {
    "keys": names.KEYS,
    "tags": names.TAGS,
    "orderingKey": names.SHARDING_KEY,
}


class _Columns:
    """The columns of one batch; names rows for error messages."""

    def __init__(
        self, batch: pa.RecordBatch, known: dict[str, int], first: int, partition: int
    ) -> None:
        self._batch = batch
        self._known = known
        self._first = first
        self._partition = partition

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def array(self, name: str) -> pa.Array:
        """Return a column, which must exist."""
        return self._batch.column(self._known[name])

    def values(self, name: str, absent: Any = None) -> Any:
        """Return the Python values of a column; `absent` for nulls and when there is no such
        column.
        """
        if name not in self._known:
            return repeat(absent)
        column = self.array(name)
        return (column if absent is None else pc.fill_null(column, absent)).to_pylist()

    def texts(self, name: str) -> Any:
        """Return the values of a column as texts."""
        if name not in self._known:
            return repeat(None)
        return self.joined(name).to_pylist()

    def joined(self, name: str) -> pa.Array:
        """Return a column as text; a list of keys is joined with blanks."""
        column = self.array(name)
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            self.check(_any_blank(column), f"has a blank or null inside one of its {name}")
            column = pc.binary_join(column, names.KEYS_SEPARATOR)
        return column if pa.types.is_string(column.type) else column.cast(pa.string())

    def row(self, at: int) -> str:
        """Return the name of the row at `at` of this batch for error messages."""
        return f"row {self._first + at} of partition {self._partition}"

    def first(self, found: pa.Array) -> int | None:
        """Return the first row for which `found` is true, else None."""
        at = int(pc.index(pc.fill_null(found, False), True).as_py())
        return None if at < 0 else at

    def check(self, bad: pa.Array, why: str) -> None:
        """Raise `UsageError` for the first row for which `bad` is true."""
        at = self.first(bad)
        if at is not None:
            raise UsageError(f"{self.row(at)} {why}")


def _delays(columns: _Columns, levels: int) -> tuple[list[bool] | None, list[pa.Array]]:
    """Return which rows are delayed (None without such a column), and their delay properties."""
    pairs = []
    if "delayTimeLevel" in columns._known:
        level = columns.array("delayTimeLevel")
        columns.check(
            pc.or_(pc.less(level, 0), pc.greater(level, levels)),
            f"has a delayTimeLevel outside of 0 to {levels}; if the brokers' messageDelayLevel has"
            " more levels, say how many with option 'delayLevels'",
        )
        pairs.append(_pair(names.DELAY, _text_or_null(level, pc.greater(level, 0))))
    if "deliverTime" in columns._known:
        time = columns.array("deliverTime")
        if pa.types.is_timestamp(time.type):
            time = time.cast(pa.timestamp("ms", tz=time.type.tz), safe=False).cast(pa.int64())
        pairs.append(_pair(names.TIMER_DELIVER_MS, _text_or_null(time, pc.greater(time, 0))))
    if not pairs:
        return None, []
    some = pairs[0].is_valid()
    for pair in pairs[1:]:
        both = pc.and_(some, pair.is_valid())
        columns.check(both, "has both a delayTimeLevel and a deliverTime; give one of them")
        some = pc.or_(some, pair.is_valid())
    return some.to_pylist(), pairs


def _text_or_null(numbers: pa.Array, wanted: pa.Array) -> pa.Array:
    return pc.if_else(pc.fill_null(wanted, False), numbers.cast(pa.string()), None)


def _pair(name: str, values: pa.Array) -> pa.Array:
    """Return `name 0x01 value`; null where the value is null or empty."""
    empty = pc.equal(pc.binary_length(values), 0)
    values = pc.if_else(pc.fill_null(empty, True), None, values).cast(pa.string())
    return pc.binary_join_element_wise(name, values, NAME_END)


def _any_blank(lists: pa.Array) -> pa.Array:
    """Return the rows of `lists` with an element that is null, empty or contains a blank."""
    blank = pc.fill_null(pc.match_substring_regex(lists.flatten(), "^$| "), True)
    rows = pc.filter(pc.list_parent_indices(lists), blank)
    return pc.is_in(pa.array(range(len(lists)), pa.int64()), value_set=rows.cast(pa.int64()))


def _either(delayed: bool, topic: str) -> bool:
    return delayed or topic.startswith(RETRY)


def _is_retry(topic: str) -> bool:
    return topic.startswith(RETRY)
