"""Checksums of log blocks, computed while the blocks are written.

The bytes are in the processor's cache then. Reading a block again later costs several times as much
as its checksum, in a thread that competes with the event loop.
"""

from collections import OrderedDict

from epochmq.base.ports import Buffer
from epochmq.model.crc import MASK, continue_crc32

BLOCK_BYTES = 64 * 1024
KEPT_MAX = 16_384
"""Blocks whose checksums are kept until the device has them: 1 GiB of the log."""

_NOWHERE = -1


class WrittenBlocks:
    """CRC-32 of each block that was written from its first byte on, in order and without a gap.

    A block that was written in another way is not known here; its bytes must be read.
    """

    __slots__ = ("_crc", "_end", "_known", "_start", "_stop")

    def __init__(self) -> None:
        self._end = _NOWHERE
        """Where the next write must begin to continue the current block."""
        self._start = self._stop = 0
        """Start of the current block; `_stop` is its end."""
        self._crc = 0
        self._known: OrderedDict[int, int] = OrderedDict()
        """CRC-32 of complete blocks, by the offset of the first byte; the oldest block first. A
        plain dict would search its first entry behind all those that were removed."""

    def clear(self) -> None:
        """Forget everything, because bytes of the log changed, or may have changed, in another
        way.
        """
        self._end = _NOWHERE
        self._known.clear()

    def add(self, offset: int, data: Buffer, file_start: int, file_stop: int) -> None:
        """Add `data`, which was written at `offset` into the log file `[file_start, file_stop)`."""
        end = offset + len(data)
        if offset != self._end:  # not behind the last write: begin with the next block
            self._begin(offset + (file_start - offset) % BLOCK_BYTES, file_stop)
            if self._start >= end:
                self._end = _NOWHERE
                return
        if end < self._stop and offset >= self._start:
            self._crc = continue_crc32(data, self._crc)
        else:
            self._add_across(offset, memoryview(data), file_stop)
        self._end = end if end < file_stop else _NOWHERE

    def _add_across(self, offset: int, data: memoryview, file_stop: int) -> None:
        """Add bytes that cross a block boundary."""
        known, crc = self._known, self._crc
        start, stop = self._start, self._stop
        at, end = max(offset, start), offset + len(data)
        while at < end >= stop:
            known[start] = continue_crc32(data[at - offset : stop - offset], crc) & MASK
            at = start = stop
            stop, crc = min(start + BLOCK_BYTES, file_stop), 0
        if at < end:
            crc = continue_crc32(data[at - offset :], crc)
        self._start, self._stop, self._crc = start, stop, crc
        while len(known) > KEPT_MAX:
            known.popitem(last=False)

    def crc_of(self, start: int) -> int | None:
        """Return the CRC-32 of the whole block at `start`; None if it is not known."""
        return self._known.get(start)

    @property
    def first(self) -> int | None:
        """Start of the first block whose checksum is known; None if there is none."""
        return next(iter(self._known), None)

    def drop_below(self, offset: int) -> None:
        """Forget the blocks before `offset`, whose checksums are stored."""
        known = self._known
        while known and (first := next(iter(known))) < offset:
            del known[first]

    def _begin(self, start: int, file_stop: int) -> None:
        self._start = start
        self._stop = min(start + BLOCK_BYTES, file_stop)
        self._crc = 0
