"""Filter pushdown for batch queries: turns Spark's filters into queues, ranges of queue offsets,
and tags that the broker filters.

Spark passes filters that are joined by AND. A filter that is fully applied here is not returned to
Spark. Filters on time are returned: a range of store times is only roughly a range of offsets.
Filters on keys are returned too: the index of a broker names offsets that may have a key.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from epochmq.client.aio.bulk_calls import QueuePlaces
from epochmq.model.tags import split_expression
from epochmq.model.topic import MessageQueue
from epochmq.spark.plan import QueueRange

CLOCK_BACK_MS = 600_000
"""How far the clock of a broker may go back, at a failover or by hand, while a range of store times
still contains all rows (ms).

Brokers find an offset by binary search. If store times never go back by more than this, each row at
or after a time is behind the offset that is found for the time minus this.
"""
_EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
NEVER_NULL = frozenset({"topic", "queueId", "queueOffset", "brokerName", "storeTimestamp"})
_RANGES = (EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)

KEYS_MAX = 16
"""A filter on more keys reads everything: each key is one request to each broker."""

GAP_ROWS = 100
"""Two places of a key with fewer rows between them are read together: a request of its own costs
about as much as this many rows.
"""

Bounds = Mapping[MessageQueue, tuple[int, int]]
OffsetsAt = Callable[[Mapping[MessageQueue, int]], Mapping[MessageQueue, int]]
PlacesOf = Callable[
    [Iterable[MessageQueue], Iterable[str]], Mapping[MessageQueue, Sequence[QueuePlaces]]
]
Interval = tuple[int | None, int | None]
"""The first value of the interval and the value after the last one; None means open."""


@dataclass(frozen=True, slots=True)
class PushedFilters:
    """The accepted values by column: names as sets (a missing one accepts all), numbers as
    intervals.
    """

    names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """For `topic` and `brokerName`."""
    numbers: Mapping[str, Interval] = field(default_factory=dict)
    """For `queueId`, `queueOffset` and `storeTimestamp` (ms)."""
    queue_ids: frozenset[int] | None = None
    tags: frozenset[str] | None = None
    keys: frozenset[str] | None = None
    """Whole texts of the column `keys`."""

    def queues(self, bounds: Bounds) -> dict[MessageQueue, tuple[int, int]]:
        """Return the queues that can have matching rows."""
        return {queue: pair for queue, pair in bounds.items() if self._has(queue)}

    def _has(self, queue: MessageQueue) -> bool:
        topics, brokers = self.names.get("topic"), self.names.get("brokerName")
        return (
            (topics is None or queue.topic in topics)
            and (brokers is None or queue.broker_name in brokers)
            and (self.queue_ids is None or queue.queue_id in self.queue_ids)
            and within(queue.queue_id, self.numbers.get("queueId"))
        )

    def tag_expression(self, given: str | None) -> str | None:
        """Return the tags to read as `a || b`: those of the filters that `given` contains too.

        None means all messages, "" means that no message matches.
        """
        if self.tags is None:
            return given
        others = split_expression(given) if given is not None else None
        return " || ".join(sorted(self.tags if others is None else self.tags & set(others)))

    def narrowed(
        self,
        spans: Sequence[QueueRange],
        offsets_at: OffsetsAt,
        places_of: PlacesOf,
    ) -> list[QueueRange]:
        """Cut ranges to the offsets that can have matching rows.

        `offsets_at` searches queues by store time (ms) and returns queue offsets. `places_of`
        searches queues by keys; it returns the places of each key, or leaves a queue out.
        """
        low, high = self.numbers.get("queueOffset", (None, None))
        cut = [_cut(span, low, high) for span in spans]
        since, until = self.numbers.get("storeTimestamp", (None, None))
        if since is not None and cut:
            at = offsets_at({span.queue: max(0, since - CLOCK_BACK_MS) for span in cut})
            cut = [_cut(span, at[span.queue], None) for span in cut]
        if until is not None and cut:
            at = offsets_at({span.queue: max(0, until + CLOCK_BACK_MS) for span in cut})
            cut = [_cut(span, None, at[span.queue]) for span in cut]
        return cut if self.keys is None else self._at_keys(cut, places_of)

    def _at_keys(self, spans: list[QueueRange], places_of: PlacesOf) -> list[QueueRange]:
        """Cut ranges to the places of `keys`, where brokers know them."""
        assert self.keys is not None
        filled = [span for span in spans if span.count]
        if not filled or not self.keys:
            return []
        places = places_of([span.queue for span in filled], {_word(text) for text in self.keys})
        parts: list[QueueRange] = []
        for span in filled:
            found = places.get(span.queue)
            parts += at_places(span, found) if found else [span]
        return parts


def within(number: int, interval: Interval | None) -> bool:
    """Return whether `number` lies in the interval; None contains all numbers."""
    low, high = interval or (None, None)
    return (low is None or number >= low) and (high is None or number < high)


def at_places(span: QueueRange, places: Sequence[QueuePlaces]) -> list[QueueRange]:
    """Return the parts of `span` that may have one of the keys whose places are given.

    Parts outside of what was searched for every key are kept whole. Parts that lie near to each
    other are one.
    """
    start = min(max(span.start, *(each.start for each in places)), span.stop)
    stop = max(min(span.stop, *(each.stop for each in places)), start)
    offsets = sorted({at for each in places for at in each.offsets if start <= at < stop})
    kept = [(span.start, start), *((at, at + 1) for at in offsets), (stop, span.stop)]
    parts: list[QueueRange] = []
    for low, high in kept:
        if low >= high:
            continue
        if parts and low - parts[-1].stop < GAP_ROWS:
            parts[-1] = replace(parts[-1], stop=high)
        else:
            parts.append(QueueRange(span.queue, low, high))
    return parts


def _cut(span: QueueRange, low: int | None, high: int | None) -> QueueRange:
    start = span.start if low is None else min(max(span.start, low), span.stop)
    stop = span.stop if high is None else max(min(span.stop, high), start)
    return replace(span, start=start, stop=stop)


def pushed(filters: Iterable[Filter]) -> tuple[PushedFilters, list[Filter]]:
    """Split `filters` into those applied here, and a list of those that Spark has to apply."""
    wanted, rest = PushedFilters(), []
    for each in filters:
        narrowed, done = _apply(wanted, each)
        wanted = narrowed or wanted
        if narrowed is None or not done:
            rest.append(each)
    return wanted, rest


def _apply(wanted: PushedFilters, each: Filter) -> tuple[PushedFilters | None, bool]:
    """Return `wanted` narrowed by one filter, and whether that applies the filter fully.

    The first value is None for a filter that is not supported here.
    """
    column = ".".join(getattr(each, "attribute", ()))
    if isinstance(each, IsNotNull) and column in NEVER_NULL:
        return wanted, True
    if column in ("topic", "brokerName") and isinstance(each, EqualTo | In):
        values = each.value if isinstance(each, In) else (each.value,)
        before = wanted.names.get(column)
        chosen = frozenset(values) if before is None else before & frozenset(values)
        return replace(wanted, names={**wanted.names, column: chosen}), True
    if column == "tags" and isinstance(each, EqualTo | In):
        wanted_tags = each.value if isinstance(each, In) else (each.value,)
        if not all(_is_tag(tag) for tag in wanted_tags):
            return None, False
        before_tags = wanted.tags
        tags = frozenset(wanted_tags)
        return replace(wanted, tags=tags if before_tags is None else before_tags & tags), True
    if column == "keys" and isinstance(each, EqualTo | In):
        texts = each.value if isinstance(each, In) else (each.value,)
        if len(texts) > KEYS_MAX or not all(
            isinstance(text, str) and _word(text) for text in texts
        ):
            return None, False
        before_keys = wanted.keys
        keys = frozenset(texts)
        return replace(wanted, keys=keys if before_keys is None else before_keys & keys), False
    if column == "queueId" and isinstance(each, In):
        ids = frozenset(each.value)
        before_ids = wanted.queue_ids
        return replace(wanted, queue_ids=ids if before_ids is None else before_ids & ids), True
    if column in ("queueId", "queueOffset", "storeTimestamp") and isinstance(each, _RANGES):
        found = _interval(each)
        if found is None:
            return None, False
        joined = _joined(wanted.numbers.get(column), found)
        return replace(wanted, numbers={**wanted.numbers, column: joined}), column[0] == "q"
    return None, False


def _word(text: str) -> str:
    """Return the longest of the keys in a text of the column `keys`; "" if it has none."""
    return max(text.split(" "), key=len)


def _is_tag(value: Any) -> bool:
    """Return whether a tag can be written in a tag expression."""
    return isinstance(value, str) and bool(value) and split_expression(value) == [value]


def _interval(each: Any) -> Interval | None:
    """Return the filter as an interval of whole numbers.

    A time has microseconds, which only `<` must take into account.
    """
    floor = _whole(each.value)
    if floor is None:
        return None
    if isinstance(each, EqualTo):
        return floor, floor + 1
    if isinstance(each, GreaterThanOrEqual):
        return floor, None
    if isinstance(each, GreaterThan):
        return floor + 1, None
    if isinstance(each, LessThanOrEqual):
        return None, floor + 1
    return None, (floor + 1 if isinstance(each.value, datetime) else floor)


def _whole(value: Any) -> int | None:
    if isinstance(value, datetime):  # a datetime without a zone does not have the column's type
        return (value - _EPOCH_START) // _MS if value.tzinfo is not None else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _joined(one: Interval | None, other: Interval) -> Interval:
    lows = [low for low, _ in (one or (None, None), other) if low is not None]
    highs = [high for _, high in (one or (None, None), other) if high is not None]
    return (max(lows) if lows else None), (min(highs) if highs else None)
