"""Reads records by the units of a batch consume queue; a record counts as all its messages."""

from collections.abc import Callable
from typing import NamedTuple

from epochmq.store.draft import BATCH_UNIT


class BatchFound(NamedTuple):
    """The result of a read."""

    chunks: list[memoryview]
    messages: int
    next_offset: int
    size: int
    changed: bool
    """Whether the next record differs from its unit."""


def read_batches(
    units: bytes,
    span: tuple[int, int],
    limits: tuple[int, int],
    find: Callable[[int, int, int], memoryview | None],
    accept: Callable[[int], bool] | None,
    verify: Callable[[memoryview], bool | None] | None,
) -> BatchFound:
    """Return whole records by `units`; the first unit holds the first queue offset of `span`.

    `limits`: maximum of messages and bytes (at least one record). `find` returns the record of a
    log offset, a size and a first queue offset.
    """
    at, high = span
    max_count, max_bytes = limits
    chunks: list[memoryview] = []
    count = total = 0
    for start, size, tags, _wall, base, messages, _compact, _zero in BATCH_UNIT.iter_unpack(units):
        if base >= high:
            break
        record = None
        if accept is None or accept(tags):
            record = find(start, size, base)
            if record is None:
                return BatchFound(chunks, count, at, total, changed=True)
        verdict: bool | None = record is not None
        if record is not None and verify is not None:
            verdict = verify(record)
            if verdict is None:
                if at > span[0]:
                    break
                verdict = verify(record)  # a read examines at least one record
        if record is not None and verdict:
            if chunks and (count + messages > max_count or total + size > max_bytes):
                break
            chunks.append(record)
            count += messages
            total += size
        at = base + messages
    return BatchFound(chunks, count, at, total, changed=False)
