"""Queries messages by key: the index gives candidates, and each candidate's record is checked.

`KeySearch` finds the newest records with a key. `KeyPlaceSearch` finds the queue offsets of all of
them, or says that it cannot. Both work in steps, because a chain of the index may have millions of
items.

Within `LogMemory.only` a step may raise `NotInMemory`. The search continues with the next step.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol, TypeVar

from epochmq.base import limits
from epochmq.model.record import check, fields_at
from epochmq.store.dispatch import index_keys
from epochmq.store.index_file import BROKEN_CHAIN
from epochmq.store.message_index import Index, IndexResult
from epochmq.store.read import Reader
from epochmq.store.store_files import StoreFiles

_PROPOSED_MAX = 1024
_AT_ONCE = 1 << 20
_NEVER_MS = -(1 << 70)
_ALWAYS_MS = 1 << 70
"""Times that no field of a file reaches, whatever is wrong with it."""
_AT_A_TIME = 50
"""Items of the index whose records are read from the device together."""
_ITEMS_PER_RECORD = 10
"""How many items of a step it costs to read a record."""

T_co = TypeVar("T_co", covariant=True)


class SteppedSearch(Protocol[T_co]):
    """A search that runs step by step."""

    def step(self, items: int) -> bool:
        """Examine about `items` items of the index; return whether the search is over."""
        ...

    @property
    def result(self) -> T_co: ...


class _NextItems:
    """The next items of an index chain; their records are brought into memory together."""

    def __init__(self, walk: Iterator[int], reader: Reader) -> None:
        self._walk = walk
        self._reader = reader
        self.items: deque[int] = deque()
        """Items that are not examined yet, as `Index.walk` yields them."""

    def has_next(self, most: int = _AT_A_TIME) -> bool:
        """Return whether there is an item; if none is left, up to `most` are read from the index.

        Raises `NotInMemory`; the items are kept.
        """
        if not self.items:
            self.items.extend(islice(self._walk, min(most, _AT_A_TIME)))
            start, readable = self._reader.span
            self._reader.memory.need_all(at for at in self.items if start <= at < readable)
        return bool(self.items)


class KeySearch:
    """Searches the newest records of `topic` with `key`, in steps of limited length.

    Another key may have the same hash, and an item may remain after its record is gone, so each
    record is checked.
    """

    def __init__(
        self,
        index: Index,
        reader: Reader,
        topic: str,
        key: str,
        max_count: int,
        begin_wall: int,
        end_wall: int,
    ) -> None:
        self._index = index
        self._reader = reader
        self._topic = topic.encode()
        self._key = key
        self._max_count = max_count
        self._walls = begin_wall, end_wall
        self._proposals = max(max_count, min(max_count * 4, _PROPOSED_MAX))
        self._next = _NextItems(index.walk(topic, key, begin_wall, end_wall), reader)
        self._seen: set[int] = set()
        self._found: list[int] = []

    def step(self, items: int) -> bool:
        """Examine `items` items of the index; return whether the search is over."""
        upcoming = self._next
        while items > 0:
            if not upcoming.has_next(items):
                return True
            if upcoming.items[0] >= 0 and self._looked_at(upcoming.items[0]):
                return True
            upcoming.items.popleft()
            items -= 1
        return False

    def _looked_at(self, offset: int) -> bool:
        """Note the record at `offset` if it matches; return whether the search is over."""
        if offset not in self._seen:
            if self._record_at(offset) is not None:
                self._found.append(offset)
            self._seen.add(offset)
        self._proposals -= 1
        return self._proposals <= 0 or len(self._found) >= self._max_count

    def _record_at(self, offset: int) -> memoryview | None:
        """Return the record at `offset` if it matches topic, key and time; else None."""
        record = self._reader.message_at(offset)
        if record is None or check(record, 0, len(record), crc=False) <= 0:
            return None
        fields = fields_at(record, 0)
        in_time = self._walls[0] <= fields[5] <= self._walls[1]
        is_meant = fields[6] == self._topic and in_time and self._key in index_keys(fields[7])
        return record if is_meant else None

    @property
    def result(self) -> IndexResult:
        """The records found so far, in log order as in RocketMQ.

        They are read again, because the log may have been cut since.
        """
        records = [self._record_at(offset) for offset in sorted(self._found)]
        kept = [record for record in records if record is not None]
        return IndexResult(kept, *self._index.last_update())


@dataclass(slots=True)
class KeyPlaces:
    """Where messages with a key are: by queue id, their queue offsets, possibly with others.

    Attributes:
        complete: whether no message is missing whose record begins at `complete_from` or later,
            and that was readable when the search began.
        complete_from: log offset in bytes.
        found: queue offsets by queue id.
    """

    complete: bool
    complete_from: int
    found: dict[int, set[int]] = field(default_factory=dict)


class KeyPlaceSearch:
    """Searches the places of all records of `topic` with `key`, in steps of limited length.

    The result is not complete if there are more than `limits.KEY_PLACES_MAX`, or if the index or a
    record turns out to be damaged.
    """

    def __init__(self, index: Index, reader: Reader, topic: str, key: str) -> None:
        self._index = index
        self._reader = reader
        self._topic = topic.encode()
        self._key = key
        self._hash = index.hash_of(topic, key)
        self._next = _NextItems(index.walk(topic, key, _NEVER_MS, _ALWAYS_MS), reader)
        self._left = limits.KEY_PLACES_MAX
        self._last = -1
        self.result = KeyPlaces(not index.has_holes, index.complete_from)

    def step(self, items: int) -> bool:
        """Examine about `items` items of the index; return whether the search is over."""
        upcoming = self._next
        while items > 0 and self.result.complete:
            if not upcoming.has_next():
                return True
            offset = upcoming.items[0]
            items -= 1
            if offset == BROKEN_CHAIN:
                self.result.complete = False
            elif offset >= 0 and offset != self._last:
                items -= _ITEMS_PER_RECORD
                self.result.complete = self._note(offset)
                self._last = offset
            upcoming.items.popleft()
        return not self.result.complete

    def _note(self, offset: int) -> bool:
        """Note the place of the record at `offset`; return whether the result is still complete."""
        start, readable = self._reader.span
        if not start <= offset < readable:
            return True  # retention deleted the record, or it is not confirmed yet
        record = self._reader.message_at(offset)
        if record is None:
            return False
        _size, queue_id, queue_offset, _, _, _, topic, properties = fields_at(record, 0)
        keys = index_keys(properties)
        if topic != self._topic or self._key not in keys:
            name = topic.decode("utf-8", "replace")
            return any(self._index.hash_of(name, key) == self._hash for key in keys)
        self.result.found.setdefault(queue_id, set()).add(queue_offset)
        self._left -= 1
        return self._left >= 0


class KeyQueries:
    """Starts searches of one store's index."""

    def __init__(self, files: StoreFiles, reader: Reader, index_staged: Callable[[], bool]) -> None:
        """`index_staged` adds the keys of all readable messages to the index; it returns False if
        it cannot, for example because the disk is full.
        """
        self._index = files.index
        self._queues = files.queues
        self._reader = reader
        self._index_staged = index_staged

    def newest(
        self, topic: str, key: str, max_count: int, begin_wall: int, end_wall: int
    ) -> KeySearch | None:
        """Start a search for the newest records of `topic` with `key`, stored within the given
        times (ms); None if the store has no index.
        """
        if self._index is None:
            return None
        self._index_staged()
        return KeySearch(self._index, self._reader, topic, key, max_count, begin_wall, end_wall)

    def places(self, topic: str, key: str) -> KeyPlaceSearch | None:
        """Start a search for the places of all records of `topic` with `key`.

        Returns None if the index does not have them all: the store has no index, the disk is full,
        or the topic stores batches as one record, whose inner keys are not indexed.
        """
        if self._index is None or self._queues.is_batched(topic) or not self._index_staged():
            return None
        return KeyPlaceSearch(self._index, self._reader, topic, key)


def query_index(search: KeySearch) -> IndexResult:
    """Run the whole search now; return its result."""
    while not search.step(_AT_ONCE):
        pass
    return search.result
