"""The record format of the journal, and how damage is distinguished from a torn write.

Record, big-endian: u32 length of the payload, u32 CRC32 of length and payload, payload. Payload: 4
bytes `EMQr`, u8 kind, u64 `synced`, body (MessagePack), 1 byte 0xA5. `synced` is how many bytes of
the file were on the device when the record was written. Zeros follow the last record.

A record that was being written at a power failure is torn: some of its sectors are still zeros. No
message depended on it, so it is cut. Any other bad record is damage. Proofs of damage are: a later
record whose `synced` covers it, the size in the BIRTH record, or a bad record with no sector of
zeros.
"""

import zlib
from collections.abc import Iterator
from enum import IntEnum
from itertools import pairwise
from struct import Struct

from epochmq.base import limits
from epochmq.base.errors import StoreDamaged

SECTOR = 512
MAGIC = b"EMQr"
TRAILER = b"\xa5"
RECORD_BYTES_MAX = limits.RAFT_SNAPSHOT_BYTES_MAX + 64 * 1024

_HEAD = Struct(">II")
_PAYLOAD = Struct(">4sBQ")
_EXTRA = _PAYLOAD.size + len(TRAILER)


class RecordKind(IntEnum):
    """The kind of a record."""

    BIRTH = 1
    """First record of a file: the size of the file when it was created, and its owner."""
    HARD_STATE = 2
    ENTRY = 3
    SNAPSHOT = 4


def encode(kind: RecordKind, body: bytes, synced: int) -> bytes:
    """Return the bytes of one record."""
    payload = b"".join((_PAYLOAD.pack(MAGIC, kind, synced), body, TRAILER))
    length = len(payload).to_bytes(4, "big")
    return b"".join((length, zlib.crc32(payload, zlib.crc32(length)).to_bytes(4, "big"), payload))


def size_of(body: bytes) -> int:
    """Return the size in bytes of a record with this body."""
    return _HEAD.size + _EXTRA + len(body)


def record_at(data: bytes, at: int) -> tuple[RecordKind, int, bytes, int] | None:
    """Return (kind, synced, body, end) of the record at `at`; None if there is no valid record."""
    if at + _HEAD.size > len(data):
        return None
    length, crc = _HEAD.unpack_from(data, at)
    start = at + _HEAD.size
    stop = start + length
    if not _EXTRA <= length <= RECORD_BYTES_MAX or stop > len(data):
        return None
    whole = memoryview(data)
    if zlib.crc32(whole[start:stop], zlib.crc32(whole[at : at + 4])) != crc:
        return None
    magic, kind, synced = _PAYLOAD.unpack_from(data, start)
    if (
        magic != MAGIC
        or kind not in RecordKind.__members__.values()
        or data[stop - 1 : stop] != TRAILER
    ):
        return None
    return RecordKind(kind), synced, data[start + _PAYLOAD.size : stop - 1], stop


class Scan:
    """Reads the records of one file in order; `end` is the end of the last valid one."""

    def __init__(self, data: bytes, name: str) -> None:
        self._data = data
        self._name = name
        self.end = 0
        self.synced = 0
        """`synced` of the newest record: how many bytes were on the device when it was written."""
        self.born_bytes = 0
        """Set by the caller when it reads the BIRTH record."""
        self.torn = False
        """Bytes after `end` must be cut."""

    def records(self) -> Iterator[tuple[RecordKind, bytes]]:
        """Return each record. Raises `StoreDamaged` if a record is bad that was synced."""
        while (found := record_at(self._data, self.end)) is not None:
            kind, self.synced, body, after = found
            yield kind, body
            self.end = after
        self.torn = any(self._data[self.end :])
        if self._is_damaged():
            raise StoreDamaged(
                f"{self._name} is damaged at byte {self.end}: a record that was on the device"
                " cannot be read. This node may have forgotten a vote or an entry, so it must not"
                " go on with it. Restore the file; or delete this directory, and the node takes"
                " part again when a leader of the others has confirmed it"
            )

    def _is_damaged(self) -> bool:
        if self.end < self.born_bytes or self.end == 0:
            return True
        return self.torn and (self._is_relied_on() or self._is_whole())

    def _is_relied_on(self) -> bool:
        """Whether a later record shows that this place was on the device."""
        at = self.end
        while (at := self._data.find(MAGIC, at + 1)) >= 0:
            found = record_at(self._data, at - _HEAD.size)
            if found is not None and found[1] > self.end:
                return True
        return False

    def _is_whole(self) -> bool:
        """Whether no sector of the bad record is missing, so that it was not torn."""
        if self.end + _HEAD.size > len(self._data):
            return False
        length, _crc = _HEAD.unpack_from(self._data, self.end)
        stop = self.end + _HEAD.size + length
        if not _EXTRA <= length <= RECORD_BYTES_MAX or stop > len(self._data):
            return False
        if not self._data[stop - 1]:
            return False
        edges = [self.end, *range(self.end - self.end % SECTOR + SECTOR, stop, SECTOR), stop]
        return all(any(self._data[start:end]) for start, end in pairwise(edges))
