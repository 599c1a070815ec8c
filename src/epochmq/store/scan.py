"""Scans the records of a commit log file, and stops without an error at the first bad record.

A record is valid if its magic, all its lengths and its own offset agree and, if requested, its
body's checksum. The checksum covers only the body, and a crash may leave any 512-byte sector of the
tail unwritten, that is zero (for this, recovery zeroes everything behind the log's end). A lost
sector is found anywhere: in the head it makes a length zero, in the body it breaks the checksum, in
topic or properties its first byte is a NUL, which the store accepts in neither. The last test is
made only for records younger than `safe_wall` and beyond `safe_end`: older ones are known to be
synced, and another broker may have accepted a NUL.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from struct import Struct

import msgspec

from epochmq.model.crc import crc32
from epochmq.model.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from epochmq.model.sys_flag import BORN_V6, HOSTS_V6_MASK, STORE_V6
from epochmq.store.draft import FRONT
from epochmq.store.segment import Segment

_LENGTH = Struct(">I").unpack_from
_TIME = Struct(">q").unpack_from
_FRONT = FRONT.unpack_from
_SECTOR = 512
_HEAD_BYTES = 88
_V6_BYTES = 12


class DispatchEntry(msgspec.Struct, gc=False):
    """The fields of a record that dispatch needs."""

    offset: int
    size: int
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_wall_ms: int
    topic: bytes
    properties: bytes


class ScanEnd(msgspec.Struct):
    """Where and why a scan stopped; `rolled` if it continues in the next file (at a blank)."""

    offset: int = 0
    rolled: bool = True
    reason: str = "empty log"

    def set(self, offset: int, rolled: bool, reason: str) -> None:
        self.offset, self.rolled, self.reason = offset, rolled, reason


def walk_log(
    segments: Sequence[Segment],
    end: ScanEnd,
    *,
    crc: bool = True,
    safe_wall: int | None = None,
    safe_end: int = 0,
    anywhere: bool = False,
) -> Iterator[DispatchEntry]:
    """Yield the records of consecutive log files; at the end, `end` says where and why."""
    end.set(segments[0].start, True, "empty log")

    def walks() -> Iterator[Iterator[DispatchEntry]]:
        for segment in segments:
            if not end.rolled:
                return
            yield walk(
                segment.view,
                segment.start,
                0,
                end,
                crc=crc,
                safe_wall=safe_wall,
                safe_end=safe_end,
                anywhere=anywhere,
            )

    return chain.from_iterable(walks())


def walk(
    view: memoryview,
    start: int,
    at: int,
    end_of: ScanEnd,
    *,
    crc: bool = True,
    safe_wall: int | None = None,
    safe_end: int = 0,
    anywhere: bool = False,
) -> Iterator[DispatchEntry]:
    """Yield the records of one file from position `at`; `view` begins at log offset `start`.

    With `safe_wall` (ms), records stored later and not below `safe_end` are tested for lost
    sectors; with `anywhere` for any NUL in topic and properties: a follower's log may end at any
    byte of a record.
    """
    limit = len(view)
    while True:
        if limit - at < 8:
            end_of.set(start + at, at == limit, "end of file")
            return
        if limit - at < FRONT.size:
            size, magic = _LENGTH(view, at)[0], _LENGTH(view, at + 4)[0]
            crc_field = queue_id = queue_offset = own = sys_flag = 0
        else:
            size, magic, crc_field, queue_id, _flag, queue_offset, own, sys_flag = _FRONT(view, at)
        if magic != MAGIC_V1 and magic != MAGIC_V2:
            if magic == MAGIC_BLANK and size == limit - at:
                end_of.set(start + limit, True, "blank")
            else:
                end_of.set(start + at, False, "no record" if magic == 0 else "unknown magic")
            return
        head = _HEAD_BYTES
        if sys_flag & HOSTS_V6_MASK:
            head += _V6_BYTES * (bool(sys_flag & BORN_V6) + bool(sys_flag & STORE_V6))
        end = at + size
        if size < head + 4 or end > limit or own != start + at or queue_offset < 0:
            end_of.set(start + at, False, "torn or foreign record")
            return
        body_end = at + head + _LENGTH(view, at + head - 4)[0]
        if magic == MAGIC_V1:
            topic_at = body_end + 1
            topic_end = topic_at + view[body_end] if topic_at < end else limit
        else:
            topic_at = body_end + 2
            topic_end = topic_at + _short(view, body_end) if topic_at < end else limit
        if topic_end + 2 > end or topic_end == topic_at:
            end_of.set(start + at, False, "lengths do not agree")
            return
        if topic_end + 2 + _short(view, topic_end) != end:
            end_of.set(start + at, False, "lengths do not agree")
            return
        if crc and crc32(view[at + head : body_end]) != crc_field:
            end_of.set(start + at, False, "body checksum is wrong")
            return
        born = _V6_BYTES if sys_flag & BORN_V6 else 0
        wall = _TIME(view, at + 56 + born)[0]
        if (
            safe_wall is not None
            and wall > safe_wall
            and start + at >= safe_end
            and _lost_sector(view, topic_at, topic_end, end, anywhere)
        ):
            end_of.set(start + at, False, "a sector was lost")
            return
        yield DispatchEntry(
            start + at,
            size,
            queue_id,
            queue_offset,
            sys_flag,
            wall,
            bytes(view[topic_at:topic_end]),
            bytes(view[topic_end + 2 : end]),
        )
        at = end


def _short(view: memoryview, at: int) -> int:
    return view[at] << 8 | view[at + 1]


def _lost_sector(view: memoryview, topic_at: int, topic_end: int, end: int, anywhere: bool) -> bool:
    """Whether a sector that begins in topic or properties begins with a NUL.

    The length between them may hold zeros; if it was lost, the test of lengths has failed already.
    """
    if anywhere:
        return b"\0" in bytes(view[topic_at:topic_end]) + bytes(view[topic_end + 2 : end])
    edge = topic_at + -topic_at % _SECTOR
    while edge < end:
        if view[edge] == 0 and not topic_end <= edge < topic_end + 2:
            return True
        edge += _SECTOR
    return False
