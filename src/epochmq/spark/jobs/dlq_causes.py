"""Dead letters as values: their origin, and groups by common causes. Pure."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from epochmq.base.errors import EpochError, UsageError
from epochmq.model import property_names as names
from epochmq.model.message import StoredMessage

SAMPLES = 5
BY = ("topic", "tags", "tries")
FIELDS = ("topic", "tags", "tries", "keys", "bornHost")
"""A cause may also name property:NAME, or body:NAME of a JSON object."""
_TEXT_MAX = 200


@dataclass(frozen=True, slots=True)
class Dead:
    """One dead letter; `place` is broker:queueId:queueOffset, which is unique."""

    place: str
    msg_id: str
    topic: str
    """The topic to which it was first sent."""
    origin_id: str
    """The offset id of the original; empty when the letter does not have it."""
    tags: str
    keys: str
    tries: int
    born_host: str
    stored_ms: int
    body: bytes
    flag: int
    properties: dict[str, str] = field(default_factory=dict)


def dead_of(message: StoredMessage, broker_name: str) -> Dead:
    """Convert a message of a %DLQ% topic."""
    properties = message.properties
    try:
        body = message.plain_body()
    except EpochError:
        body = message.body
    return Dead(
        f"{broker_name}:{message.queue_id}:{message.queue_offset}",
        message.msg_id,
        properties.get(names.RETRY_TOPIC) or properties.get(names.DLQ_ORIGIN_TOPIC) or "",
        properties.get(names.ORIGIN_MESSAGE_ID)
        or properties.get(names.DLQ_ORIGIN_MESSAGE_ID)
        or "",
        message.tags or "",
        properties.get(names.KEYS, ""),
        message.reconsume_times,
        message.born_host[0],
        message.store_wall_ms,
        body,
        message.flag,
        properties,
    )


def check_field(name: str) -> str:
    """Return `name` if letters have such a field; else raise `UsageError` that lists all fields."""
    kind, colon, rest = name.partition(":")
    if name in FIELDS or (colon and rest and kind in ("property", "body")):
        return name
    raise UsageError(
        f"a dead letter has no '{name}': use {', '.join(FIELDS)}, property:NAME or body:NAME"
    )


def value_of(dead: Dead, name: str) -> str:
    """Return a field as text; empty when the letter does not have it."""
    kind, _, rest = name.partition(":")
    if kind == "property":
        return dead.properties.get(rest, "")[:_TEXT_MAX]
    if kind == "body":
        return _of_body(dead.body, rest)[:_TEXT_MAX]
    if name == "bornHost":
        return dead.born_host
    return str(getattr(dead, name))


def _of_body(body: bytes, name: str) -> str:
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if found is None:
        return ""
    return found if isinstance(found, str) else json.dumps(found)


@dataclass(slots=True)
class Cause:
    """Letters that have equal values in all grouping fields."""

    values: dict[str, str]
    count: int = 0
    first_ms: int = 0
    last_ms: int = 0
    bytes: int = 0
    samples: list[str] = field(default_factory=list)
    origins: Counter[str] = field(default_factory=Counter)
    """The number of looked-up letters by result: there, changed, gone or unknown."""

    def add(self, dead: Dead, origin: str | None) -> None:
        """Add a letter."""
        self.first_ms = min(self.first_ms, dead.stored_ms) if self.count else dead.stored_ms
        self.last_ms = max(self.last_ms, dead.stored_ms)
        self.count += 1
        self.bytes += len(dead.body)
        if len(self.samples) < SAMPLES:
            self.samples.append(dead.msg_id)
        if origin is not None:
            self.origins[origin] += 1

    def as_row(self) -> dict[str, object]:
        """Return the cause for tables and JSON."""
        return {
            **self.values,
            "count": self.count,
            "bytes": self.bytes,
            "firstMs": self.first_ms,
            "lastMs": self.last_ms,
            "origin": dict(self.origins),
            "samples": self.samples,
        }


def causes(
    letters: Iterable[Dead], by: Sequence[str], origins: dict[str, str] | None = None
) -> list[Cause]:
    """Group letters by the fields in `by`, the largest group first."""
    found: dict[tuple[str, ...], Cause] = {}
    for dead in letters:
        values = tuple(value_of(dead, name) for name in by)
        cause = found.get(values)
        if cause is None:
            cause = found[values] = Cause(dict(zip(by, values, strict=True)))
        cause.add(dead, (origins or {}).get(dead.place))
    return sorted(found.values(), key=lambda each: (-each.count, tuple(each.values.values())))


@dataclass(frozen=True, slots=True)
class Pick:
    """Selects letters: all conditions must hold; without conditions all letters match."""

    where: tuple[tuple[str, str], ...] = ()
    ids: frozenset[str] = frozenset()
    places: frozenset[str] = frozenset()
    """As `Dead.place`; empty for all."""
    since: int = 0
    until: int = 0

    def __post_init__(self) -> None:
        if self.until and self.until <= self.since:
            raise UsageError("the time to end at is not behind the one to begin at")

    def matches(self, dead: Dead) -> bool:
        """Return whether the letter matches."""
        if self.ids and dead.msg_id not in self.ids:
            return False
        if self.places and dead.place not in self.places:
            return False
        if dead.stored_ms < self.since or (self.until and dead.stored_ms >= self.until):
            return False
        return all(value_of(dead, name) == value for name, value in self.where)


def parse_where(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Parse conditions such as `tags=paid` and `property:NAME=value`."""
    found = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"'{text}' is not a condition: write FIELD=VALUE, as tags=paid")
        found.append((check_field(name), value))
    return tuple(found)
