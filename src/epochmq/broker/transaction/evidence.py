"""Whether a transaction's real message is in the log already: asked before one is written.

A commit writes the real message first and names the half message as over a little later. Who was
master in between, and died, leaves a half message that looks open and is not. Its real message
says so: it has the bits of a commit, the same UNIQ_KEY, and the place of the half message.
"""

from collections.abc import Iterator
from typing import Protocol

from epochmq.base.types import Buffer
from epochmq.broker.transaction.half import read_half, real_place
from epochmq.model import record
from epochmq.model.names import HALF_TOPIC
from epochmq.model.sys_flag import TX_COMMIT, transaction_type
from epochmq.store.index import IndexResult
from epochmq.store.read import ReadResult

_SAME_KEY_MAX = 64
"""The newest so many messages with one UNIQ_KEY are looked at."""
_WALK_COUNT = 512
_WALK_BYTES = 4 * 1024 * 1024
_FOREVER = 1 << 62
_HALF = HALF_TOPIC.encode()


class Records(Protocol):
    """What this needs of the store."""

    def query_index(
        self, topic: str, key: str, max_count: int, begin_wall: int, end_wall: int
    ) -> IndexResult: ...

    def message_at(self, offset: int, size: int | None = None) -> memoryview | None: ...

    def offset_at_place(self, topic: str, queue_id: int, log_offset: int) -> int: ...

    def read_queue(
        self, topic: str, queue_id: int, offset: int, max_count: int, max_bytes: int
    ) -> ReadResult: ...


def is_committed(store: Records, raw: Buffer, *, indexed: bool) -> bool:
    """Whether the log holds the real message of the half message whose record `raw` is.

    By the index of keys; without one (messageIndexEnable=false) by reading the real queue from
    where the half message lies to its end.
    """
    message = record.decode(raw)
    place = real_place(message)
    if place is None:
        return False
    origin = read_half(raw).origin
    key = message.uniq_key
    if indexed and key:
        found = store.query_index(place[0], key, _SAME_KEY_MAX, 0, _FOREVER).records
        return any(_is_of(store, one, message.offset, origin) for one in found)
    walked = _walk(store, place, message.offset)
    return any(_is_of(store, one, message.offset, origin) for one in walked)


def _is_of(store: Records, found: memoryview, half_at: int, origin: int) -> bool:
    """Whether `found` was made of the half message at `half_at`, or of another copy of it."""
    if transaction_type(record.sys_flag_at(found, 0)) != TX_COMMIT:
        return False
    prepared = record.prepared_offset_at(found, 0)
    if prepared == half_at:
        return True
    raw = store.message_at(prepared)
    return raw is not None and record.topic_at(raw, 0) == _HALF and read_half(raw).origin == origin


def _walk(store: Records, place: tuple[str, int], log_offset: int) -> Iterator[memoryview]:
    at = store.offset_at_place(*place, log_offset)
    while True:
        found = store.read_queue(*place, max(at, 0), _WALK_COUNT, _WALK_BYTES)
        yield from records_of(found)
        if not found.count or found.next_offset <= at:
            return
        at = found.next_offset


def records_of(found: ReadResult) -> Iterator[memoryview]:
    """Each record of a read; neighbours lie in one view."""
    for chunk in found.chunks:
        at = 0
        while at < len(chunk):
            size = record.size_at(chunk, at)
            yield chunk[at : at + size]
            at += size
