"""Tables that come in parts: what the requester asks, and how it joins the answers.

A broker's tables of topics, groups, offsets, ordered batches and request modes may be larger than a
frame. A requester that sends `inParts` gets them in answers of about 1 MiB (ADR 0109). A broker
that does not know the field answers the whole table at once.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from epochmq.base.errors import PeerError
from epochmq.base.limits import TABLE_BYTES_MAX
from epochmq.wire import json_tolerant
from epochmq.wire.command import Command
from epochmq.wire.header import I64, Header, decode_header

T = TypeVar("T")

BATCHES_FIELD = "table"
"""Field of the ordered batches: by `topic@group`, then by queue. A part may have some queues of a
group, while a row of another table is complete in each part that has it."""
REMOVED_FIELD = "epochmqRemoved"
"""Field of a part: names of rows that were removed. RocketMQ ignores it."""


class SinceHeader(Header):
    """EpochMQ's header fields of a request for a table."""

    sinceStamp: str | None = None
    """The stamp of the last answer."""
    waitMillis: I64 | None = None
    """How long the broker may hold the request while the table does not change."""
    inParts: bool | None = None


class StampHeader(Header):
    """EpochMQ's header fields of the answers to these requests."""

    stamp: str | None = None
    unchanged: bool | None = None
    delta: bool | None = None
    more: bool | None = None
    """Whether another part follows; it is asked for with the stamp of this one."""


def decode_object(body: bytes) -> dict[str, Any]:
    """Decode a table that is a JSON object; raises `ValueError` or `PeerError` if it is none."""
    content = json_tolerant.loads(body)
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    return content


class TableParts(Generic[T]):
    """Joins the parts of a table, or of its changes since `stamp`.

    Args:
        decode: decodes the body of a part: into a dict or a `Body`, of which the fields that are
            dicts contain the rows by name.
        stamp: the stamp of the last answer that the requester has applied.
    """

    def __init__(self, decode: Callable[[bytes], T], stamp: str | None = None) -> None:
        self._decode = decode
        self.stamp = stamp
        self.content: T | None = None
        """The rows; None while nothing changed."""
        self.removed: dict[str, None] = {}
        """Names of removed rows, if the answers are changes."""
        self.is_delta = False
        self._size = 0

    def question(self, wait_ms: int = 0) -> dict[str, str]:
        """Return the header fields of the next request.

        The first one, without a stamp, is answered at once. With `wait_ms` it says that the replica
        will wait for changes, so that changes wait for the replica from then on. A request for a
        further part does not: the replica has not applied anything yet.
        """
        fields = {"inParts": "true"}
        if self.stamp is not None:
            fields["sinceStamp"] = self.stamp
        if wait_ms and not self._size:
            fields["waitMillis"] = str(wait_ms)
        return fields

    def add(self, answer: Command) -> bool:
        """Add a part; return whether it is the last one.

        Raises `PeerError`, `ValueError` or `msgspec.ValidationError` if it is not usable.
        """
        header = decode_header(StampHeader, answer.ext)
        if not header.unchanged:
            self._size += len(answer.body)
            if self._size > TABLE_BYTES_MAX:
                raise PeerError(f"the table has more than {TABLE_BYTES_MAX} bytes")
            part = self._decode(bytes(answer.body))
            removed = _pop_removed(part)
            if self.content is None or not header.delta:
                self.content, self.is_delta = part, bool(header.delta)
                self.removed = dict.fromkeys(removed)
                self._size = len(answer.body)
            else:
                self._join(part, removed)
        self.stamp = header.stamp
        return not header.more

    def _join(self, part: T, removed: Iterable[str]) -> None:
        join_rows(self.content, part, removed)
        for rows in _fields(part).values():
            if isinstance(rows, dict):
                for name in rows:
                    self.removed.pop(name, None)
        self.removed.update(dict.fromkeys(removed))


def join_rows(table: Any, part: Any, removed: Iterable[str]) -> None:
    """Remove rows from `table`, then add those of `part`; both are dicts, or both a `Body`."""
    mine = _fields(table)
    for name, theirs in _fields(part).items():
        rows = mine.get(name)
        if isinstance(rows, dict) and isinstance(theirs, dict):
            for key in removed:
                rows.pop(key, None)
            if name == BATCHES_FIELD:
                theirs = {key: {**rows.get(key, {}), **row} for key, row in theirs.items()}
            rows.update(theirs)
        elif isinstance(table, dict):
            table[name] = theirs
        else:
            setattr(table, name, theirs)


def _fields(table: Any) -> Mapping[str, Any]:
    if isinstance(table, dict):
        return table
    return {name: getattr(table, name) for name in table.__struct_fields__}


def _pop_removed(part: Any) -> list[str]:
    """Remove and return the names of removed rows of a part."""
    if isinstance(part, dict):
        return msgspec.convert(part.pop(REMOVED_FIELD, []), list[str])
    removed: list[str] | UnsetType = getattr(part, "epochmq_removed", UNSET)
    if isinstance(removed, UnsetType):
        return []
    part.epochmq_removed = UNSET
    return removed
