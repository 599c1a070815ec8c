"""Reads records by the units of a batch queue; a record counts as all the messages in it."""

from collections.abc import Callable
from typing import NamedTuple

from epochmq.store.batch_queue import BatchQueue
from epochmq.store.layout import BATCH_UNIT


class BatchFound(NamedTuple):
    """What a read came to."""

    chunks: list[memoryview]
    messages: int
    next_offset: int
    size: int


def read_batches(
    queue: BatchQueue,
    span: tuple[int, int],
    limits: tuple[int, int, int],
    slice_log: Callable[[int, int], memoryview | None],
    accept: Callable[[int], bool] | None,
    verify: Callable[[memoryview], bool] | None,
) -> BatchFound:
    """Whole records from the one that holds the first of `span`'s queue offsets.

    `limits`: units to look at, messages and bytes to find (one record at least).
    """
    at, high = span
    scan, max_count, max_bytes = limits
    chunks: list[memoryview] = []
    count = total = 0
    units = queue.run.units(queue.position(at), scan)
    for start, size, tags, _wall, base, messages, _compact, _zero in BATCH_UNIT.iter_unpack(units):
        if base >= high:
            break
        record = slice_log(start, size) if accept is None or accept(tags) else None
        if record is not None and (verify is None or verify(record)):
            if chunks and (count + messages > max_count or total + size > max_bytes):
                break
            chunks.append(record)
            count += messages
            total += size
        at = base + messages
    return BatchFound(chunks, count, at, total)
