"""Messages of a sink that one request brought, remembered as one until they are settled (ADR 0057).

A sink's batch mostly is one run: one part of one batch, numbers that follow each other, records
side by side in the log, one queue. So a few comparisons a request tell whether any of it is a
repeat.
"""

from bisect import bisect_left, bisect_right, insort
from typing import NamedTuple

from epochmq.model.sink_mark import SinkMark
from epochmq.store.draft import UNIT, UNIT_BYTES


class MessagePosition(NamedTuple):
    """Where a message is: byte position and size in the log, index in its queue."""

    offset: int
    size: int
    queue_id: int
    queue_offset: int


class SinkRun:
    """So many messages from `mark` on, whose units are side by side in `units`."""

    __slots__ = ("_at", "count", "mark", "queue_id", "queue_offset", "units")

    def __init__(
        self, mark: SinkMark, count: int, queue_id: int, queue_offset: int, units: bytes
    ) -> None:
        self.mark = mark
        self.count = count
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        """Of the first one."""
        self.units = units
        self._at = 0
        """Which unit the first one has."""

    @property
    def seq(self) -> int:
        return self.mark.seq

    @property
    def stop(self) -> int:
        """The number behind the last one."""
        return self.mark.seq + self.count

    def place(self, n: int) -> MessagePosition:
        """Of the n-th message."""
        offset, size, _ = UNIT.unpack_from(self.units, (self._at + n) * UNIT_BYTES)
        return MessagePosition(offset, size, self.queue_id, self.queue_offset + n)

    def offset_of(self, n: int) -> int:
        return self.place(n).offset

    def end_of(self, n: int) -> int:
        """The log offset behind the n-th message."""
        place = self.place(n)
        return place.offset + place.size

    def ended(self, limit: int) -> int:
        """How many of them end at log offset `limit` or before."""
        if self.end_of(self.count - 1) <= limit:
            return self.count
        return bisect_right(range(self.count), limit, key=self.end_of)

    def begun(self, limit: int) -> int:
        """How many of them begin before log offset `limit`."""
        return bisect_left(range(self.count), limit, key=self.offset_of)

    def skip(self, count: int) -> None:
        """Forget the first so many, which are not all."""
        self.mark = self.mark._replace(seq=self.mark.seq + count)
        self.count -= count
        self.queue_offset += count
        self._at += count


class Runs:
    """Runs of one part of one batch. No two of them have a number in common."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[SinkRun] = []
        """By their numbers."""

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, run: SinkRun) -> None:
        insort(self._runs, run, key=_first)

    def find(self, seq: int) -> MessagePosition | None:
        """Where the message with this number is."""
        at = bisect_right(self._runs, seq, key=_first) - 1
        if at < 0 or seq >= self._runs[at].stop:
            return None
        return self._runs[at].place(seq - self._runs[at].seq)

    def meets(self, start: int, stop: int) -> bool:
        """Whether one of the numbers from `start` to `stop` (exclusive) is there."""
        at = bisect_left(self._runs, stop, key=_first) - 1
        return at >= 0 and self._runs[at].stop > start

    def keep(self, run: SinkRun, start: int, stop: int) -> None:
        """Of `run` only the messages `start` to `stop` are remembered any more."""
        if start >= stop:
            del self._runs[bisect_left(self._runs, run.seq, key=_first)]
            run.count = 0
            return
        run.count = stop
        if start:
            run.skip(start)


def _first(run: SinkRun) -> int:
    return run.mark.seq
