"""config/timercheck: how far the timer is, in 56 of 4096 bytes (facts/store.md 7.2).

Behind them come 16 of ours: a mark, the precision (i64) that the wheel was written with, and a
CRC-32 of all that. With them the position in the timer's log is believed; without them (a Java
broker wrote it, or another precision is asked for) only time and queue offset are.
"""

from struct import Struct
from typing import NamedTuple
from zlib import crc32

FILE = "config/timercheck"
FILE_BYTES = 4096
_FIELDS = Struct(">7q")
_SHORT = Struct(">4q")
_OURS = Struct(">4sq")
_MARK = b"EMQT"


class TimerCheckpoint(NamedTuple):
    """What was enqueued and delivered when it was taken; -1 for a log position not known."""

    last_read_ms: int = 0
    """Every message before `master_offset` with a time up to this one is delivered."""
    log_position: int = -1
    queue_offset: int = 0
    """What is before it in the timer topic is on the wheel, up to `log_position` of its log."""
    master_offset: int = 0
    state_version: int = 0
    wall_ms: int = 0
    counter: int = 0

    def body(self) -> bytes:
        """The 56 bytes that GET_TIMER_CHECK_POINT 60 answers."""
        return _FIELDS.pack(*self)

    def encode(self, precision_ms: int) -> bytes:
        """The file."""
        data = self.body() + _OURS.pack(_MARK, precision_ms)
        return (data + crc32(data).to_bytes(4, "big")).ljust(FILE_BYTES, b"\0")


def decode(data: bytes, precision_ms: int = 0) -> TimerCheckpoint | None:
    """What a file or an answer says; None when it says nothing that can be."""
    if len(data) >= _FIELDS.size:
        found = TimerCheckpoint(*_FIELDS.unpack_from(data))
    elif len(data) >= _SHORT.size:  # before 5.2 the version was not in it
        found = TimerCheckpoint(*_SHORT.unpack_from(data))
    else:
        return None
    if min(found.last_read_ms, found.queue_offset, found.master_offset) < 0:
        return None
    end = _FIELDS.size + _OURS.size
    if len(data) < end + 4 or not data.startswith(_MARK, _FIELDS.size):
        return found._replace(log_position=-1)
    if crc32(data[:end]).to_bytes(4, "big") != data[end : end + 4]:
        return None
    same = _OURS.unpack_from(data, _FIELDS.size)[1] == precision_ms
    return found if same else found._replace(log_position=-1)
