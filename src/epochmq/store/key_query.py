"""Queries messages by key: the index gives candidates, and each candidate's record is checked."""

from itertools import islice

from epochmq.model.record import check, fields_at
from epochmq.store.dispatch import index_keys
from epochmq.store.message_index import Index, IndexResult
from epochmq.store.read import Reader

_PROPOSED_MAX = 1024
_AT_ONCE = 1 << 20


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
        self._walk = index.walk(topic, key, begin_wall, end_wall)
        self._seen: set[int] = set()
        self._found: list[int] = []

    def step(self, items: int) -> bool:
        """Examine `items` items of the index; return whether the search is over."""
        for offset in islice(self._walk, items):
            if offset >= 0 and self._looked_at(offset):
                return True
            items -= 1
        return items > 0

    def _looked_at(self, offset: int) -> bool:
        """Note the record at `offset` if it matches; return whether the search is over."""
        self._proposals -= 1
        if offset not in self._seen:
            self._seen.add(offset)
            if self._record_at(offset) is not None:
                self._found.append(offset)
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


def query_index(search: KeySearch) -> IndexResult:
    """Run the whole search now; return its result."""
    while not search.step(_AT_ONCE):
        pass
    return search.result
