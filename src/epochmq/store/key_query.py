"""Looks messages up by key: the index proposes, the record decides."""

from itertools import islice

from epochmq.model.record import check, fields_at
from epochmq.store.dispatch import index_keys
from epochmq.store.message_index import Index, IndexResult
from epochmq.store.read import Reader

_PROPOSED_MAX = 1024
_AT_ONCE = 1 << 20


class KeySearch:
    """The newest records of `topic` that carry `key`, looked for in steps of bounded length.

    A hash may belong to another key, and an item may outlive its record: each record is checked.
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
        """Look at so many items of the index; whether the search is over."""
        for offset in islice(self._walk, items):
            if offset >= 0 and self._looked_at(offset):
                return True
            items -= 1
        return items > 0

    def _looked_at(self, offset: int) -> bool:
        """Take the record at `offset` if it is meant; whether there are enough."""
        self._proposals -= 1
        if offset not in self._seen:
            self._seen.add(offset)
            if self._record_at(offset) is not None:
                self._found.append(offset)
        return self._proposals <= 0 or len(self._found) >= self._max_count

    def _record_at(self, offset: int) -> memoryview | None:
        """The record there if it is meant."""
        record = self._reader.message_at(offset)
        if record is None or check(record, 0, len(record), crc=False) <= 0:
            return None
        fields = fields_at(record, 0)
        in_time = self._walls[0] <= fields[5] <= self._walls[1]
        is_meant = fields[6] == self._topic and in_time and self._key in index_keys(fields[7])
        return record if is_meant else None

    @property
    def result(self) -> IndexResult:
        """What was found by now, in the order of the log as upstream has it.

        Read again: the log may have been cut since it was found.
        """
        records = [self._record_at(offset) for offset in sorted(self._found)]
        kept = [record for record in records if record is not None]
        return IndexResult(kept, *self._index.last_update())


def query_index(search: KeySearch) -> IndexResult:
    """The result of the whole search, here and now."""
    while not search.step(_AT_ONCE):
        pass
    return search.result
