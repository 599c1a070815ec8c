"""The sink memory: which messages of sinks are in the log, to detect duplicates (ADR 0036).

It is derived from the log in the same way on every replica: messages are noted when their records
join the log, removed when they are cut, and read from the log again after a crash. Messages that a
failover or a power cut may still remove are kept with their log offset (`recent`). Only confirmed
and synced messages are merged into the settled memory, which a snapshot saves together with the log
offset that it covers.

It errs in one direction only: it accepts a message that it does not know, which may then be stored
twice. It never claims a message that the log does not have.
"""

from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any

import msgspec

from epochmq.base import limits
from epochmq.base.ports import Disk
from epochmq.model.crc import crc32
from epochmq.model.sink_mark import SinkKey, SinkMark, mark_of
from epochmq.store.seen import SeenNumbers
from epochmq.store.sink_runs import MessagePosition, Runs, SinkRun

FILE = "config/sinkProgress.json"
_SAVE_BYTES = 64 * 1024 * 1024
"""The log grows by at least so many bytes between snapshots; a start reads only the log behind
one.
"""


SETTLED = MessagePosition(-1, 0, -1, -1)
"""The message is stored for good; its log offset is not remembered."""


class _SnapshotRow(msgspec.Struct, gc=False):
    """The entry of one key in the snapshot."""

    sink: str
    part: int
    topic: str
    batch: int
    full: list[tuple[int, int]] = []
    some: dict[str, str] = {}


class _Progress:
    """The newest batch of a key, and its stored messages; all older batches are complete."""

    __slots__ = ("batch", "seen")

    def __init__(self, batch: int, seen: SeenNumbers) -> None:
        self.batch = batch
        self.seen = seen


class SinkMemory:
    """The sink memory of one broker. Offsets are log offsets; messages are noted in log order."""

    file = FILE

    def __init__(self) -> None:
        self._settled: OrderedDict[SinkKey, _Progress] = OrderedDict()
        """Ordered by last use, the oldest first."""
        self._weight = 0
        self._recent: deque[tuple[int, int, SinkMark] | SinkRun] = deque()
        """(offset, end, mark) of messages that may still be cut, in log order; or runs of
        messages.
        """
        self._recent_count = 0
        """Number of messages in `_recent`."""
        self._places: dict[SinkMark, MessagePosition] = {}
        """Positions of the messages in `_recent` that are not in runs; the first for each mark."""
        self._runs: dict[tuple[SinkKey, int], Runs] = {}
        """Runs in `_recent`, by key and batch."""
        self._noted = -1
        """Log offset of the last record noted."""
        self.covered = 0
        """Below this log offset everything is settled."""
        self._saved = 0
        self.dirty = False
        self.missing = True
        """Whether there was no snapshot: this broker never had the memory."""
        self.repeats = 0
        """Number of messages that were duplicates."""

    # Asking ----------------------------------------------------------------------------------

    def find(self, mark: SinkMark) -> MessagePosition | None:
        """Return the position of the message with this mark, `SETTLED` for an old one, None if
        new.
        """
        known = self._settled.get(mark.key)
        if known is not None and (
            mark.batch < known.batch or (mark.batch == known.batch and mark.seq in known.seen)
        ):
            return SETTLED
        place = self._places.get(mark)
        if place is None and (runs := self._runs.get((mark.key, mark.batch))) is not None:
            place = runs.find(mark.seq)
        return place

    def is_new(self, mark: SinkMark, count: int) -> bool:
        """Whether `find` knows none of the `count` messages from `mark` on."""
        key, batch, seq = mark
        known = self._settled.get(key)
        if known is not None and batch <= known.batch:
            if batch < known.batch or known.seen.has_any(seq, count):
                return False
        runs = self._runs.get((key, batch))
        if runs is not None and runs.meets(seq, seq + count):
            return False
        places = self._places
        return not places or not any(
            SinkMark(key, batch, number) in places for number in range(seq, seq + count)
        )

    # Following the log -----------------------------------------------------------------------

    def see(self, topic: str, properties: Mapping[str, str], place: MessagePosition) -> None:
        """Note a record of the log, if it is a sink's message."""
        mark = mark_of(topic, properties)
        if mark is not None:
            self.note(mark, place)

    def note(self, mark: SinkMark, place: MessagePosition) -> None:
        """Note a sink's message that is in the log."""
        if place.offset <= self._noted or place.offset < self.covered:
            return  # read again
        self._noted = place.offset
        self._make_room(1)
        self._recent.append((place.offset, place.offset + place.size, mark))
        self._recent_count += 1
        self._places.setdefault(mark, place)

    def note_run(self, run: SinkRun) -> None:
        """Note a run of new messages of a sink (`is_new`), whose records are adjacent in the
        log.
        """
        if (offset := run.offset_of(0)) <= self._noted or offset < self.covered:
            return
        self._noted = run.offset_of(run.count - 1)
        self._make_room(run.count)
        self._recent.append(run)
        self._recent_count += run.count
        place = run.mark.key, run.mark.batch
        runs = self._runs.get(place)
        if runs is None:
            runs = self._runs[place] = Runs()
        runs.add(run)

    def _make_room(self, count: int) -> None:
        """Forget the oldest messages so that `count` more fit; a single run always fits."""
        recent = self._recent
        while recent and (over := self._recent_count + count - limits.SINK_RECENT_MAX) > 0:
            oldest = recent[0]
            if isinstance(oldest, SinkRun) and over < oldest.count:
                self._keep(oldest, over, oldest.count)
            else:
                self._forget_recent(recent.popleft())

    def _forget_recent(self, one: tuple[int, int, SinkMark] | SinkRun) -> None:
        """Forget `one`, which was removed from `_recent`."""
        if isinstance(one, SinkRun):
            self._keep(one, 0, 0)
        else:
            self._recent_count -= 1
            self._leave(one[2], one[0])

    def _keep(self, run: SinkRun, start: int, stop: int) -> None:
        """Remember only the messages `start` to `stop` of `run`."""
        self._recent_count -= run.count - max(stop - start, 0)
        place = run.mark.key, run.mark.batch
        runs = self._runs[place]
        runs.keep(run, start, stop)
        if not runs:
            del self._runs[place]

    def _leave(self, mark: SinkMark, offset: int) -> None:
        place = self._places.get(mark)
        if place is not None and place.offset == offset:
            del self._places[mark]

    def forget_confirmed(self, limit: int) -> None:
        """Settle the messages below `limit`, up to which the log is confirmed and synced."""
        recent = self._recent
        while recent:
            oldest = recent[0]
            if not isinstance(oldest, SinkRun):
                if oldest[1] > limit:
                    break
                self._merge(oldest[2], 1)
                self._forget_recent(recent.popleft())
                continue
            count = oldest.ended(limit)
            if count:
                self._merge(oldest.mark, count)
                self._keep(oldest, count, oldest.count)
            if oldest.count:
                break
            recent.popleft()
        if recent:
            limit = min(limit, _offset(recent[0]))
        self.covered = max(self.covered, limit)
        if self.covered - self._saved >= _SAVE_BYTES:
            self.dirty = True

    def _merge(self, mark: SinkMark, count: int) -> None:
        """Settle the `count` messages from `mark` on."""
        self.dirty = True
        known = self._settled.pop(mark.key, None)
        if known is None or known.batch < mark.batch:
            self._weight -= 0 if known is None else known.seen.weight + 1
            known = _Progress(mark.batch, SeenNumbers())
            self._weight += 1
        self._settled[mark.key] = known
        if mark.batch == known.batch:
            before = known.seen.weight
            known.seen.add_run(mark.seq, count)
            self._weight += known.seen.weight - before
        while self._weight > limits.SINK_WEIGHT_MAX:
            self._forget(next(iter(self._settled)))

    def _forget(self, key: SinkKey) -> None:
        self._weight -= self._settled.pop(key).seen.weight + 1

    def cut(self, end: int) -> bool:
        """Forget messages beyond `end`, after a cut of the log; return whether the snapshot is
        wrong.

        It is wrong if settled messages were cut; only an operator cuts there. Then everything is
        forgotten.
        """
        recent = self._recent
        while recent:
            newest = recent[-1]
            count = newest.begun(end) if isinstance(newest, SinkRun) else int(newest[0] < end)
            if isinstance(newest, SinkRun) and count:
                self._keep(newest, 0, count)
            if count:
                break
            self._forget_recent(recent.pop())
        self._noted = min(self._noted, end - 1)
        if end >= self.covered:
            return False
        self.restart(0)
        self._noted = end - 1
        return True

    def restart(self, offset: int) -> None:
        """Forget everything; the log restarts, or is read again, at `offset`."""
        self._settled.clear()
        self._recent.clear()
        self._places.clear()
        self._runs.clear()
        self._recent_count = 0
        self._weight = 0
        self._noted = offset - 1
        self.covered = self._saved = offset
        self.dirty = True

    def forget_topic(self, topic: str) -> None:
        """Forget a deleted topic: messages to a new topic of this name are new."""
        for key in [key for key in self._settled if key.topic == topic]:
            self._forget(key)
            self.dirty = True
        for mark in [mark for mark in self._places if mark.key.topic == topic]:
            del self._places[mark]
        for place in [place for place in self._runs if place[0].topic == topic]:
            del self._runs[place]
        self._recent = deque(one for one in self._recent if _mark(one).key.topic != topic)
        self._recent_count = sum(
            one.count if isinstance(one, SinkRun) else 1 for one in self._recent
        )

    # Snapshots -------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """Return the settled memory as JSON, with the log offset that it covers."""
        self._saved = self.covered
        rows = [
            _SnapshotRow(*key, known.batch, *known.seen.save())
            for key, known in self._settled.items()
        ]
        sinks = msgspec.json.encode(rows)
        form = b'{"covered":%d,"coveredCrc":%d,"crc":%d,"sinks":%s}'
        return form % (self.covered, crc32(b"%d" % self.covered), crc32(sinks), sinks)

    def load(self, content: dict[str, Any]) -> None:
        """Load a snapshot; raise `ValueError` if it is invalid."""
        covered, crc = content.get("covered"), content.get("crc")
        rows = msgspec.convert(content.get("sinks"), list[_SnapshotRow])
        if not isinstance(covered, int) or covered < 0:
            raise ValueError("covered is not a log offset")
        known = None, crc32(b"%d" % covered)  # older versions wrote no coveredCrc
        if crc != crc32(msgspec.json.encode(rows)) or content.get("coveredCrc") not in known:
            raise ValueError("the checksum is wrong")
        self.restart(covered)
        for row in rows:
            seen = SeenNumbers.load(row.full, row.some, limits.SINK_WEIGHT_MAX)
            self._settled[SinkKey(row.sink, row.part, row.topic)] = _Progress(row.batch, seen)
            self._weight += seen.weight + 1
        self.dirty = False

    def statistics(self) -> dict[str, int]:
        return {
            "sink_parts": len(self._settled),
            "sink_recent": self._recent_count,
            "sink_weight": self._weight,
            "sink_repeats": self.repeats,
        }


def _offset(one: tuple[int, int, SinkMark] | SinkRun) -> int:
    """Return the log offset of the (first) message."""
    return one.offset_of(0) if isinstance(one, SinkRun) else one[0]


def _mark(one: tuple[int, int, SinkMark] | SinkRun) -> SinkMark:
    return one.mark if isinstance(one, SinkRun) else one[2]


def load_snapshot(disk: Disk, memory: SinkMemory) -> str | None:
    """Fill `memory` from its file or the `.bak`; return None, or an error, or "" without a file.

    If the result is not None, the memory is empty.
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
    """Delete the snapshot and its backup, because they are no longer valid."""
    for path in (f"{FILE}.bak", FILE):
        disk.remove(path)
