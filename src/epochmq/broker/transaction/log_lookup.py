"""Whether a transaction is over by what is in the log already: asked before anything is written.

A commit writes the real message first and names the half message as over a little later. Who was
master in between, and died, leaves a half message that looks open and is not. Its real message
says so: it has the bits of a commit, the same UNIQ_KEY, and the place of the half message. One that
was given up says so in the same way: by what is kept of it for operators.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Protocol

from epochmq.base.types import Buffer
from epochmq.broker.transaction.half import op_offsets, read_half, real_place
from epochmq.model import record
from epochmq.model.message import StoredMessage
from epochmq.model.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from epochmq.model.sys_flag import TX_COMMIT, transaction_type
from epochmq.store.message_index import IndexResult
from epochmq.store.read import ReadResult

_SAME_KEY_MAX = 64
"""The newest so many messages with one UNIQ_KEY are looked at."""
_WALK_COUNT = 512
_WALK_BYTES = 4 * 1024 * 1024
_FOREVER = 1 << 62
_LOOKED_AT_MAX = 4_096
"""So many half messages, and op messages, behind one that is over are looked at."""
_HALF = HALF_TOPIC.encode()


class LookupStore(Protocol):
    """What this needs of the store."""

    def query_index(
        self, topic: str, key: str, max_count: int, begin_wall: int, end_wall: int
    ) -> IndexResult: ...

    def message_at(self, offset: int, size: int | None = None) -> memoryview | None: ...

    def offset_at_place(self, topic: str, queue_id: int, log_offset: int) -> int: ...

    def read_queue(
        self, topic: str, queue_id: int, offset: int, max_count: int, max_bytes: int
    ) -> ReadResult: ...


def is_committed(store: LookupStore, raw: Buffer, *, indexed: bool) -> bool:
    """Whether the log holds the real message of the half message whose record `raw` is.

    By the index of keys; without one (messageIndexEnable=false) by reading the real queue from
    where the half message lies to its end.
    """
    message = record.decode(raw)
    place = real_place(message)
    found = () if place is None else _near(store, message, place, indexed)
    origin = read_half(raw).origin
    return any(
        transaction_type(record.sys_flag_at(one, 0)) == TX_COMMIT
        and _is_of(store, one, message.offset, origin)
        for one in found
    )


def is_given_up(store: LookupStore, raw: Buffer, *, indexed: bool) -> bool:
    """Whether TRANS_CHECK_MAX_TIME_TOPIC holds the half message whose record `raw` is."""
    message, origin = record.decode(raw), read_half(raw).origin
    found = _near(store, message, (TRANS_CHECK_MAX_TIME_TOPIC, 0), indexed)
    return any(_is_of(store, one, message.offset, origin) for one in found)


def is_named(store: LookupStore, raw: Buffer) -> bool:
    """Whether an op message says that the half message whose record `raw` is, or a copy, is over.

    One that is over and not named was handed over by a stand-in. One that is named very much
    later than it was sent is not found.
    """
    half = read_half(raw)
    names = {half.origin, half.queue_offset}
    for other in islice(_walk(store, (HALF_TOPIC, 0), half.offset), _LOOKED_AT_MAX):
        copy = read_half(other)
        if copy.origin == half.origin:
            names.add(copy.queue_offset)
    ops = islice(_walk(store, (OP_HALF_TOPIC, 0), half.offset), _LOOKED_AT_MAX)
    return any(names.intersection(op_offsets(one)) for one in ops)


def _near(
    store: LookupStore, message: StoredMessage, place: tuple[str, int], indexed: bool
) -> Iterable[memoryview]:
    """Records of a queue that may have been made of a half message."""
    if indexed and message.uniq_key:
        return store.query_index(place[0], message.uniq_key, _SAME_KEY_MAX, 0, _FOREVER).records
    return _walk(store, place, message.offset)


def _is_of(store: LookupStore, found: memoryview, half_at: int, origin: int) -> bool:
    """Whether `found` was made of the half message at `half_at`, or of another copy of it."""
    prepared = record.prepared_offset_at(found, 0)
    if prepared == half_at:
        return True
    raw = store.message_at(prepared)
    return raw is not None and record.topic_at(raw, 0) == _HALF and read_half(raw).origin == origin


def _walk(store: LookupStore, place: tuple[str, int], log_offset: int) -> Iterator[memoryview]:
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
