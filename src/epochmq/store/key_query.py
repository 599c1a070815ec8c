"""Looks messages up by key: the index proposes, the record decides."""

from epochmq.model.record import check, fields_at
from epochmq.store.dispatch import index_keys
from epochmq.store.index import Index, IndexResult
from epochmq.store.read import Reader

_PROPOSED_MAX = 1024


def query_index(
    index: Index,
    reader: Reader,
    topic: str,
    key: str,
    max_count: int,
    begin_wall: int,
    end_wall: int,
) -> IndexResult:
    """The newest records of `topic` that carry `key`, in the order of the log as upstream has them.

    A hash may belong to another key, and an item may outlive its record: each record is checked.
    """
    wanted = topic.encode()
    records: list[tuple[int, memoryview]] = []
    proposed = max(max_count, min(max_count * 4, _PROPOSED_MAX))
    seen: set[int] = set()
    for offset in index.find(topic, key, proposed, begin_wall, end_wall):
        if len(records) >= max_count:
            break
        record = reader.message_at(offset)
        if offset in seen or record is None or check(record, 0, len(record), crc=False) <= 0:
            continue
        seen.add(offset)
        fields = fields_at(record, 0)
        in_time = begin_wall <= fields[5] <= end_wall
        if fields[6] == wanted and in_time and key in index_keys(fields[7]):
            records.append((offset, record))
    ordered = [record for _, record in sorted(records, key=_offset)]
    return IndexResult(ordered, *index.last_update())


def _offset(found: tuple[int, memoryview]) -> int:
    return found[0]
