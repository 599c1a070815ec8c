"""A bit set of mostly consecutive numbers: which messages of a sink's batch are stored.

4,096 numbers share a chunk of 512 bytes, which is dropped once it is full.
"""

from binascii import a2b_base64, b2a_base64
from collections.abc import Iterator
from itertools import groupby, islice

CHUNK_BITS = 12
CHUNK = 1 << CHUNK_BITS
_MASK = CHUNK - 1
_BYTES = CHUNK // 8


class _Chunk:
    """A chunk that is not full."""

    __slots__ = ("bits", "count")

    def __init__(self, bits: bytes = bytes(_BYTES)) -> None:
        self.bits = bytearray(bits)
        self.count = int.from_bytes(bits, "little").bit_count()


class SeenNumbers:
    """A set of numbers from 0 up."""

    __slots__ = ("_full", "_some")

    def __init__(self) -> None:
        self._full: set[int] = set()
        self._some: dict[int, _Chunk] = {}

    @property
    def weight(self) -> int:
        """Memory use, in chunks."""
        return len(self._some) + len(self._full) // 8

    def __contains__(self, number: int) -> bool:
        index = number >> CHUNK_BITS
        chunk = self._some.get(index)
        if chunk is None:
            return index in self._full
        at = number & _MASK
        return bool(chunk.bits[at >> 3] >> (at & 7) & 1)

    def add(self, number: int) -> None:
        index, at = number >> CHUNK_BITS, number & _MASK
        chunk = self._some.get(index)
        if chunk is None:
            if index in self._full:
                return
            chunk = self._some[index] = _Chunk()
        bit = 1 << (at & 7)
        if chunk.bits[at >> 3] & bit:
            return
        chunk.bits[at >> 3] |= bit
        chunk.count += 1
        if chunk.count == CHUNK:
            del self._some[index]
            self._full.add(index)

    def add_run(self, first: int, count: int) -> None:
        """Add `count` consecutive numbers from `first`."""
        for index, at, size in _parts(first, count):
            chunk = self._some.get(index)
            if chunk is None:
                if index in self._full:
                    continue
                chunk = self._some[index] = _Chunk()
            begin, end = at >> 3, (at + size + 7) >> 3
            before = int.from_bytes(chunk.bits[begin:end], "little")
            after = before | ((1 << size) - 1) << (at & 7)
            chunk.bits[begin:end] = after.to_bytes(end - begin, "little")
            chunk.count += (before ^ after).bit_count()
            if chunk.count == CHUNK:
                del self._some[index]
                self._full.add(index)

    def has_any(self, first: int, count: int) -> bool:
        """Whether one of `count` consecutive numbers from `first` is in the set."""
        for index, at, size in _parts(first, count):
            chunk = self._some.get(index)
            if chunk is None:
                if index in self._full:
                    return True
                continue
            bits = int.from_bytes(chunk.bits[at >> 3 : (at + size + 7) >> 3], "little")
            if bits & ((1 << size) - 1) << (at & 7):
                return True
        return False

    def save(self) -> tuple[list[tuple[int, int]], dict[str, str]]:
        """Return (runs of full chunks as first and count, the bits of the other chunks by
        index).
        """
        some = {
            str(index): b2a_base64(chunk.bits, newline=False).decode()
            for index, chunk in sorted(self._some.items())
        }
        return list(_runs(sorted(self._full))), some

    @classmethod
    def load(cls, full: list[tuple[int, int]], some: dict[str, str], most: int) -> "SeenNumbers":
        """Load the result of `save`; raise `ValueError` if it is invalid or exceeds `most`
        chunks.
        """
        made = cls()
        for first, count in full:
            if first < 0 or not 0 < count <= most * 8 - len(made._full):
                raise ValueError(f"{count} whole chunks from {first} make no sense")
            made._full.update(range(first, first + count))
        if len(some) > most:
            raise ValueError(f"{len(some)} chunks are more than {most}")
        for index, text in some.items():
            bits = a2b_base64(text.encode(), strict_mode=True)
            if len(bits) != _BYTES or int(index) < 0:
                raise ValueError(f"chunk {index[:20]} has {len(bits)} bytes, not {_BYTES}")
            made._some[int(index)] = _Chunk(bits)
        return made


def _parts(first: int, count: int) -> Iterator[tuple[int, int, int]]:
    """Yield (chunk, position in it, count) of consecutive numbers."""
    while count > 0:
        index, at = first >> CHUNK_BITS, first & _MASK
        size = min(count, CHUNK - at)
        yield index, at, size
        first, count = first + size, count - size


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield (first, count) of the runs of consecutive numbers in a sorted list."""
    for _, group in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        first = next(group)[1]
        yield first, 1 + sum(1 for _ in islice(group, None))
