"""Index keys of messages that are not confirmed wait in memory: the index has no way back.

An index file whose messages were cut would have to be made again whole, so
under replication keys go in only once their record is readable, in the log's order.
"""

from bisect import bisect_left

from epochmq.store.append import Row, Staged
from epochmq.store.commit_log import CommitLog
from epochmq.store.native.keys import KEY_BYTES, PackedKeys, place_of

HELD_KEYS_MAX = 65_536
"""Messages whose keys may wait; beyond, they are indexed early, at the price of a slow cut."""


def _offset(row: Row | PackedKeys) -> int:
    return row.offset if isinstance(row, PackedKeys) else row[2]


def waiting_keys(staged: Staged) -> int:
    """How many messages, or keys of packed ones, wait."""
    return sum(len(row) if isinstance(row, PackedKeys) else 1 for row in staged)


def ready_rows(staged: Staged, readable: int, log: CommitLog) -> int:
    """How many rows, from the first on, belong to records that end up to `readable`.

    Packed keys of which some are readable become two rows.
    """
    count = bisect_left(staged, readable, key=_offset)
    if count == 0:
        return 0
    last = staged[count - 1]
    if not isinstance(last, PackedKeys):
        return count if _ends(last[2], log) <= readable else count - 1
    if last.end <= readable:
        return count
    keys = _keys_below(last, readable)
    while keys and _ends(place_of(last.data, (keys - 1) * KEY_BYTES)[0], log) > readable:
        keys = _keys_below(last, place_of(last.data, (keys - 1) * KEY_BYTES)[0])
    if keys == 0:
        return count - 1
    if keys < len(last):
        rest = last.data[keys * KEY_BYTES :]
        offset, wall = place_of(rest, 0)
        staged.insert(count, PackedKeys(rest, offset, last.end, wall))
    staged[count - 1] = PackedKeys(
        last.data[: keys * KEY_BYTES], last.offset, readable, last.wall_ms
    )
    return count


def _ends(offset: int, log: CommitLog) -> int:
    """Where the record at `offset` ends."""
    head = log.slice(offset, 4)
    return offset + (int.from_bytes(head, "big") if head is not None else 1 << 62)


def _keys_below(keys: PackedKeys, offset: int) -> int:
    """How many of `keys` belong to records that begin below `offset`."""
    return bisect_left(
        range(len(keys)), offset, key=lambda n: place_of(keys.data, n * KEY_BYTES)[0]
    )


def cut_rows(staged: Staged, end: int) -> None:
    """The log was cut to `end`: forget the keys of what lay behind."""
    del staged[bisect_left(staged, end, key=_offset) :]
    last = staged[-1] if staged else None
    if isinstance(last, PackedKeys) and last.end > end:
        data = last.data[: _keys_below(last, end) * KEY_BYTES]
        staged[-1] = PackedKeys(data, last.offset, end, last.wall_ms)
