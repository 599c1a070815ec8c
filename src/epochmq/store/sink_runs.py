"""Runs of sink messages: those of one request, remembered as one until they are settled (ADR 0057).

A sink's batch is usually one run: one part of one batch, consecutive numbers, adjacent records in
the log, one queue. So a few comparisons per request show whether it contains a duplicate.
"""

from bisect import bisect_left, bisect_right, insort
from typing import NamedTuple

from epochmq.model.sink_mark import SinkMark
from epochmq.store.draft import UNIT, UNIT_BYTES


class MessagePosition(NamedTuple):
    """Position of a message: log offset and size, queue id and queue offset."""

    offset: int
    size: int
    queue_id: int
    queue_offset: int


class SinkRun:
    """`count` messages with consecutive numbers from `mark` on; their units are adjacent in
    `units`.
    """

    __slots__ = ("_at", "count", "mark", "queue_id", "queue_offset", "units")

    def __init__(
        self, mark: SinkMark, count: int, queue_id: int, queue_offset: int, units: bytes
    ) -> None:
        self.mark = mark
        self.count = count
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        """Queue offset of the first message."""
        self.units = units
        self._at = 0
        """Index of the first message's unit."""

    @property
    def seq(self) -> int:
        return self.mark.seq

    @property
    def stop(self) -> int:
        """The number behind the last message."""
        return self.mark.seq + self.count

    def place(self, n: int) -> MessagePosition:
        """Return the position of the n-th message."""
        offset, size, _ = UNIT.unpack_from(self.units, (self._at + n) * UNIT_BYTES)
        return MessagePosition(offset, size, self.queue_id, self.queue_offset + n)

    def offset_of(self, n: int) -> int:
        return self.place(n).offset

    def end_of(self, n: int) -> int:
        """Return the log offset behind the n-th message."""
        place = self.place(n)
        return place.offset + place.size

    def ended(self, limit: int) -> int:
        """Return how many messages end at or below log offset `limit`."""
        if self.end_of(self.count - 1) <= limit:
            return self.count
        return bisect_right(range(self.count), limit, key=self.end_of)

    def begun(self, limit: int) -> int:
        """Return how many messages begin below log offset `limit`."""
        return bisect_left(range(self.count), limit, key=self.offset_of)

    def skip(self, count: int) -> None:
        """Forget the first `count` messages; at least one must remain."""
        self.mark = self.mark._replace(seq=self.mark.seq + count)
        self.count -= count
        self.queue_offset += count
        self._at += count


class Runs:
    """Runs of one part of one batch, with disjoint message numbers."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[SinkRun] = []
        """Ordered by message number."""

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, run: SinkRun) -> None:
        insort(self._runs, run, key=_first)

    def find(self, seq: int) -> MessagePosition | None:
        """Return the position of the message with this number, or None."""
        at = bisect_right(self._runs, seq, key=_first) - 1
        if at < 0 or seq >= self._runs[at].stop:
            return None
        return self._runs[at].place(seq - self._runs[at].seq)

    def meets(self, start: int, stop: int) -> bool:
        """Whether a number in `[start, stop)` is in one of the runs."""
        at = bisect_left(self._runs, stop, key=_first) - 1
        return at >= 0 and self._runs[at].stop > start

    def keep(self, run: SinkRun, start: int, stop: int) -> None:
        """Remember only the messages `start` to `stop` of `run`."""
        if start >= stop:
            del self._runs[bisect_left(self._runs, run.seq, key=_first)]
            run.count = 0
            return
        run.count = stop
        if start:
            run.skip(start)


def _first(run: SinkRun) -> int:
    return run.mark.seq
