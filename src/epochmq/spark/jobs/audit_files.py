"""A replica as a directory: the store of a broker that is stopped, or a copy of one. Reads only."""

from collections.abc import Sequence
from typing import NamedTuple

from epochmq.base.errors import NotFound, StoreDamaged
from epochmq.model.log_blocks import blocks_of, digest
from epochmq.spark.jobs.audit_core import DigestBlock, Epoch, Shape
from epochmq.spark.log_files import LogFile, StoreDirectory


class AuditedLogFile(NamedTuple):
    """One log file: it holds log bytes `[start, start + size)`."""

    start: int
    size: int
    path: str


class StoreReplica:
    """`shape` says what the directory holds.

    Bytes behind a damaged record count as held, and so does a torn tail: both are compared, not
    mistaken for a log that was cut.
    """

    def __init__(self, name: str, directory: str) -> None:
        store = self._store = StoreDirectory(directory, name)
        if not store.files:
            raise NotFound(f"{directory} holds no commit log file (20 digits); nothing to compare")
        for gap in store.gaps():
            raise StoreDamaged(
                f"{directory}: no file holds log bytes {gap.start} to {gap.end}; restore the"
                " missing file before the comparison"
            )
        tail = store.tail
        end = max(store.end, tail.end) if tail is not None else store.end
        epochs = tuple(Epoch(epoch, start) for epoch, start, _ in store.epochs)
        self.pieces = [AuditedLogFile(file.start, file.size, file.path) for file in store.files]
        self.shape = Shape(name, store.start, end, store.confirmed or 0, epochs)

    def read(self, low: int, high: int) -> bytes:
        """The bytes of `[low, high)` as far as the replica has them."""
        low, high = max(low, self.shape.start), min(high, self.shape.end)
        return bytes(self._store.raw(low, high)) if low < high else b""

    def digests(self, low: int, high: int, block_bytes: int) -> list[DigestBlock]:
        """Of all blocks of `[low, high)`, which the replica must hold."""
        return digests_of(self.pieces, low, high, block_bytes)


def digests_of(
    pieces: Sequence[AuditedLogFile], low: int, high: int, block_bytes: int
) -> list[DigestBlock]:
    """The digest of each block, over the files that it lies in."""
    views = [
        (each, memoryview(LogFile(each.path, each.start, each.size, each.size).open()))
        for each in pieces
        if each.start < high and low < each.start + each.size
    ]
    found = []
    for offset, size in blocks_of(low, high, block_bytes):
        parts = []
        for each, view in views:
            begin, end = max(offset, each.start), min(offset + size, each.start + each.size)
            if begin < end:
                parts.append(view[begin - each.start : end - each.start])
        found.append(DigestBlock(offset, size, digest(parts)))
    return found
