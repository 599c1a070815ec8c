"""The timer checkpoint `config/timercheck`: how far the timer is, in 56 of 4096 bytes.

Behind them are 24 bytes of ours: a mark, the precision (i64, ms) of the wheel, the end (i64) of the
commit log by which everything delivered was written, and a CRC-32 of all these bytes. With them the
position in the timer log is trusted. Without them (a Java broker wrote the file, or another
precision is configured) only time and queue offset are trusted.

At byte 1024 the same follows for the newest state whose deliveries were synced. After a power cut
the log may end before the first state's log end: then the second state is used.

At byte 2048, and behind the 56 bytes of an answer to GET_TIMER_CHECK_POINT 60, follow older
progresses that are still valid although a wall clock went back since: a mark, their number (i64),
five i64 each, a CRC-32. RocketMQ and older brokers ignore these bytes.
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple
from zlib import crc32

FILE = "config/timercheck"
FILE_BYTES = 4096
_FIELDS = Struct(">7q")
_SHORT = Struct(">4q")
_OURS = Struct(">4sqq")
_SECOND_AT = 1024
_OLDER_AT = 2048
_MARK = b"EMQT"
_OLDER_MARK = b"EMQO"
_OLDER_HEAD = Struct(">4sq")
_OLDER = Struct(">5q")
OLDER_MAX = 8


class OlderProgress(NamedTuple):
    """Up to where everything was delivered when a wall clock went back."""

    done_ms: int
    """Every message before `covered` with a time up to this one is delivered."""
    covered: int
    position: int
    """End of the timer log then; -1 if it is unknown, or if the timer log was replaced."""
    log_end: int = 0
    """End of the commit log by which everything delivered was written."""
    epoch: int = -1
    """Epoch of the byte before `log_end`: if another epoch wrote it, the log was cut since."""


class TimerCheckpoint(NamedTuple):
    """The enqueue and delivery progress of the timer; log position -1 if unknown."""

    last_read_ms: int = 0
    """Every message before `master_offset` with a time up to this one is delivered."""
    log_position: int = -1
    queue_offset: int = 0
    """Messages before it in the timer topic are on the wheel, up to `log_position` of the timer
    log.
    """
    master_offset: int = 0
    state_version: int = 0
    wall_ms: int = 0
    counter: int = 0

    def body(self) -> bytes:
        """Return the 56 bytes of the answer to GET_TIMER_CHECK_POINT 60."""
        return _FIELDS.pack(*self)

    def encode(
        self,
        precision_ms: int,
        log_end: int,
        synced: bytes = b"",
        older: Sequence[OlderProgress] = (),
    ) -> bytes:
        """Return the file's bytes; `synced` is the result of `sealed` for the newest synced
        state.
        """
        first = self.sealed(precision_ms, log_end).ljust(_SECOND_AT, b"\0")
        second = synced.ljust(_OLDER_AT - _SECOND_AT, b"\0")
        return (first + second + encode_older(older)).ljust(FILE_BYTES, b"\0")

    def sealed(self, precision_ms: int, log_end: int) -> bytes:
        """Return the fields with mark, precision, log end and CRC-32."""
        data = self.body() + _OURS.pack(_MARK, precision_ms, log_end)
        return data + crc32(data).to_bytes(4, "big")


def decode(data: bytes, precision_ms: int = 0, log_end: int = 1 << 62) -> TimerCheckpoint | None:
    """Decode a file or an answer, for a commit log that ends at `log_end`; None if it is
    invalid.
    """
    if len(data) >= _FIELDS.size and data.startswith(_MARK, _FIELDS.size):
        first = _ours(data, precision_ms, log_end)
        return first or _ours(data[_SECOND_AT:], precision_ms, log_end)
    if len(data) >= _FIELDS.size:
        return _possible(TimerCheckpoint(*_FIELDS.unpack_from(data))._replace(log_position=-1))
    if len(data) >= _SHORT.size:  # before 5.2 the version was not in it
        return _possible(TimerCheckpoint(*_SHORT.unpack_from(data))._replace(log_position=-1))
    return None


def encode_older(older: Sequence[OlderProgress]) -> bytes:
    """Encode older progresses for the file or an answer; empty if there are none."""
    if not older:
        return b""
    rows = b"".join(_OLDER.pack(*row) for row in older[-OLDER_MAX:])
    data = _OLDER_HEAD.pack(_OLDER_MARK, len(rows) // _OLDER.size) + rows
    return data + crc32(data).to_bytes(4, "big")


def decode_older(data: bytes) -> list[OlderProgress]:
    """Decode the older progresses of a file or an answer; empty if there are no valid ones."""
    data = data[_OLDER_AT:] if len(data) == FILE_BYTES else data[_FIELDS.size :]
    if len(data) < _OLDER_HEAD.size:
        return []
    mark, count = _OLDER_HEAD.unpack_from(data)
    end = _OLDER_HEAD.size + count * _OLDER.size
    if mark != _OLDER_MARK or not 0 < count <= OLDER_MAX or len(data) < end + 4:
        return []
    if crc32(data[:end]).to_bytes(4, "big") != data[end : end + 4]:
        return []
    rows = [OlderProgress(*row) for row in _OLDER.iter_unpack(data[_OLDER_HEAD.size : end])]
    return [row for row in rows if min(row.done_ms, row.covered, row.log_end) >= 0]


def _possible(found: TimerCheckpoint) -> TimerCheckpoint | None:
    wrong = min(found.last_read_ms, found.queue_offset, found.master_offset) < 0
    return None if wrong else found


def _ours(data: bytes, precision_ms: int, log_end: int) -> TimerCheckpoint | None:
    end = _FIELDS.size + _OURS.size
    if len(data) < end + 4 or crc32(data[:end]).to_bytes(4, "big") != data[end : end + 4]:
        return None
    mark, precision, claimed = _OURS.unpack_from(data, _FIELDS.size)
    if mark != _MARK or claimed > log_end:
        return None
    found = TimerCheckpoint(*_FIELDS.unpack_from(data))
    return _possible(found if precision == precision_ms else found._replace(log_position=-1))
