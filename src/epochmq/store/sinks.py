"""Which messages of sinks are in the log, so that a repeat is told from the first (ADR 0036).

Derived from the log on every replica alike: noted as records join it, forgotten when they are cut
off it, read again from it after a crash. What a failover or a power cut may still take is kept
apart by its place (`recent`); only what is confirmed and synced is merged into the settled memory,
which a snapshot saves together with the log offset that it covers.

Errs to one side only: what it does not know it lets pass, and a message is stored twice. It never
claims a message that the log does not have.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from epochmq.base import limits
from epochmq.base.ports import Disk
from epochmq.model.crc import crc32
from epochmq.model.sink_mark import SinkKey, SinkMark, mark_of
from epochmq.store.seen import Seen

FILE = "config/sinkProgress.json"
_SAVE_BYTES = 64 * 1024 * 1024
"""The snapshot follows the log at this distance at least, so that a start reads little of it."""


class Place(NamedTuple):
    """Where a message is: byte position and size in the log, index in its queue."""

    offset: int
    size: int
    queue_id: int
    queue_offset: int


SETTLED = Place(-1, 0, -1, -1)
"""It is stored for good; nobody remembers where."""


class _Row(msgspec.Struct, gc=False):
    """What one key has in the snapshot."""

    sink: str
    part: int
    topic: str
    batch: int
    full: list[tuple[int, int]] = []
    some: dict[str, str] = {}


class _Progress:
    """The newest batch of a key, and what of it is stored; all older batches are."""

    __slots__ = ("batch", "seen")

    def __init__(self, batch: int, seen: Seen) -> None:
        self.batch = batch
        self.seen = seen


class SinkMemory:
    """One broker's. Offsets are the log's; notes come in its order."""

    file = FILE

    def __init__(self) -> None:
        self._settled: dict[SinkKey, _Progress] = {}
        """By last use, the oldest first."""
        self._weight = 0
        self._recent: deque[tuple[int, int, SinkMark]] = deque()
        """(offset, end, mark) of what may still be cut, in the log's order."""
        self._places: dict[SinkMark, Place] = {}
        """Of `recent`, the first of its mark."""
        self._noted = -1
        """Offset of the last record noted."""
        self.covered = 0
        """Below this log offset everything is settled."""
        self._saved = 0
        self.dirty = False
        self.missing = True
        """There was no snapshot: this broker never had the memory."""
        self.repeats = 0
        """Messages that were found to be repeats."""

    # Asking ----------------------------------------------------------------------------------

    def find(self, mark: SinkMark) -> Place | None:
        """Where the message with this mark is, `SETTLED` for long ago; None: it is a new one."""
        known = self._settled.get(mark.key)
        if known is not None and (
            mark.batch < known.batch or (mark.batch == known.batch and mark.seq in known.seen)
        ):
            return SETTLED
        return self._places.get(mark)

    # Following the log -----------------------------------------------------------------------

    def see(self, topic: str, properties: Mapping[str, str], place: Place) -> None:
        """A record was found in the log; it may or may not be a sink's."""
        mark = mark_of(topic, properties)
        if mark is not None:
            self.note(mark, place)

    def note(self, mark: SinkMark, place: Place) -> None:
        """A sink's message is in the log."""
        if place.offset <= self._noted or place.offset < self.covered:
            return  # read again
        self._noted = place.offset
        if len(self._recent) >= limits.SINK_RECENT_MAX:
            self._drop_oldest()
        self._recent.append((place.offset, place.offset + place.size, mark))
        self._places.setdefault(mark, place)

    def _drop_oldest(self) -> None:
        offset, _, mark = self._recent.popleft()
        self._leave(mark, offset)

    def _leave(self, mark: SinkMark, offset: int) -> None:
        place = self._places.get(mark)
        if place is not None and place.offset == offset:
            del self._places[mark]

    def settle(self, limit: int) -> None:
        """The log is confirmed and synced up to `limit`: nothing takes that away any more."""
        recent = self._recent
        while recent and recent[0][1] <= limit:
            offset, _, mark = recent.popleft()
            self._merge(mark)
            self._leave(mark, offset)
        if recent:
            limit = min(limit, recent[0][0])
        self.covered = max(self.covered, limit)
        if self.covered - self._saved >= _SAVE_BYTES:
            self.dirty = True

    def _merge(self, mark: SinkMark) -> None:
        self.dirty = True
        known = self._settled.pop(mark.key, None)
        if known is None or known.batch < mark.batch:
            self._weight -= 0 if known is None else known.seen.weight + 1
            known = _Progress(mark.batch, Seen())
            self._weight += 1
        self._settled[mark.key] = known
        if mark.batch == known.batch:
            before = known.seen.weight
            known.seen.add(mark.seq)
            self._weight += known.seen.weight - before
        while self._weight > limits.SINK_WEIGHT_MAX:
            self._forget(next(iter(self._settled)))

    def _forget(self, key: SinkKey) -> None:
        self._weight -= self._settled.pop(key).seen.weight + 1

    def cut(self, end: int) -> bool:
        """The log was cut to `end`; True when that took settled messages, so that the snapshot is
        wrong: only an operator cuts there, and everything is forgotten."""
        recent = self._recent
        while recent and recent[-1][0] >= end:
            offset, _, mark = recent.pop()
            self._leave(mark, offset)
        self._noted = min(self._noted, end - 1)
        if end >= self.covered:
            return False
        self.restart(0)
        self._noted = end - 1
        return True

    def restart(self, offset: int) -> None:
        """Know nothing; the log begins, or is read again, at `offset`."""
        self._settled.clear()
        self._recent.clear()
        self._places.clear()
        self._weight = 0
        self._noted = offset - 1
        self.covered = self._saved = offset
        self.dirty = True

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted: what is sent to its successor is new."""
        for key in [key for key in self._settled if key.topic == topic]:
            self._forget(key)
            self.dirty = True
        for mark in [mark for mark in self._places if mark.key.topic == topic]:
            del self._places[mark]
        self._recent = deque(row for row in self._recent if row[2].key.topic != topic)

    # Snapshots -------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """What is settled, as JSON, and up to where in the log that holds."""
        self._saved = self.covered
        rows = [_Row(*key, known.batch, *known.seen.save()) for key, known in self._settled.items()]
        sinks = msgspec.json.encode(rows)
        return b'{"covered":%d,"crc":%d,"sinks":%s}' % (self.covered, crc32(sinks), sinks)

    def load(self, content: dict[str, Any]) -> None:
        """Take a snapshot over; `ValueError` when it cannot be one."""
        covered, crc = content.get("covered"), content.get("crc")
        rows = msgspec.convert(content.get("sinks"), list[_Row])
        if not isinstance(covered, int) or covered < 0:
            raise ValueError("covered is no log offset")
        if crc != crc32(msgspec.json.encode(rows)):
            raise ValueError("the checksum is wrong")
        self.restart(covered)
        for row in rows:
            seen = Seen.load(row.full, row.some, limits.SINK_WEIGHT_MAX)
            self._settled[SinkKey(row.sink, row.part, row.topic)] = _Progress(row.batch, seen)
            self._weight += seen.weight + 1
        self.dirty = False

    def statistics(self) -> dict[str, int]:
        return {
            "sink_parts": len(self._settled),
            "sink_recent": len(self._recent),
            "sink_weight": self._weight,
            "sink_repeats": self.repeats,
        }


def load_snapshot(disk: Disk, memory: SinkMemory) -> str | None:
    """Fill `memory` from its file or the `.bak`; why that could not be, "" when there is none.

    After either of both answers the memory is empty.
    """
    problem = ""
    for path in (FILE, f"{FILE}.bak"):
        data = disk.read_file(path)
        if data is None:
            continue
        memory.missing = False
        try:
            memory.load(msgspec.json.decode(data, type=dict[str, Any]))
            return None
        except ValueError as error:
            problem = f"{path}: {error}"
    memory.restart(0)
    memory.dirty = False
    return problem


def remove_snapshot(disk: Disk) -> None:
    """It says what is not so any more."""
    for path in (f"{FILE}.bak", FILE):
        disk.remove(path)
