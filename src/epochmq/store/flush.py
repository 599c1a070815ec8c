"""Flush of the commit log: sync points, and the callers that wait for a sync (group commit).

One sync serves all appends before it. A failed sync is final: the bytes it covered may be lost
although later syncs succeed, so no caller gets a success any more.
"""

from collections import deque
from collections.abc import Callable

from epochmq.base.histogram import Histogram
from epochmq.store.commit_log import CommitLog
from epochmq.store.pointers import Pointers

Waiter = Callable[[bool], None]

SYNC_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
"""Bounds of the classes of sync times (s)."""


class Flusher:
    """Syncs the log and moves `pointers.synced`."""

    def __init__(self, log: CommitLog, pointers: Pointers, whole_end: Callable[[], int]) -> None:
        self._log = log
        self._pointers = pointers
        self._waiting: deque[tuple[int, Waiter]] = deque()
        self._marks: deque[tuple[int, int, int]] = deque()
        """For each sync point: its end, the newest store time, and where complete records end."""
        self._whole_end = whole_end
        """Returns where complete records end; a follower's log may end inside a record."""
        self.whole_synced = 0
        """End of a record below which everything is synced."""
        self._failed = False
        self._open: list[int] = []
        """Ends of the running sync points; two may have the same end (a flush and an index
        sync).
        """
        self._void: list[int] = []
        """Ends of sync points that were taken before the log was cut below them."""
        self._cut_at = 0
        self.count = 0
        self.times = Histogram(SYNC_SECONDS)
        """How long the syncs took (s), as the callers see it."""

    @property
    def awaited(self) -> bool:
        """Whether a caller waits for a sync."""
        return bool(self._waiting)

    def point(self, wall: int) -> tuple[int, Callable[[], None]]:
        """Return the log's end and the blocking call that syncs the log up to it.

        `wall` is the store time (ms) of the newest message. The transient pool is written first.
        """
        self._log.commit()
        end = self._log.end
        files = [segment.file for segment in self._log.between(self._pointers.synced, end)]
        self._marks.append((end, wall, min(end, self._whole_end())))
        self._open.append(end)

        def sync() -> None:
            for file in files:  # in log order: a later file is useless without this one
                file.sync()

        return end, files[0].sync if len(files) == 1 else sync

    def done(self, offset: int) -> int | None:
        """Record that all bytes below `offset` are synced; return the newest store time, if
        known.
        """
        wall: int | None = None
        if offset in self._void:
            self._void.remove(offset)
            offset = min(offset, self._cut_at)
        elif offset in self._open:
            self._open.remove(offset)
        if offset > self._pointers.synced:
            self._pointers.synced = offset
        self.count += 1
        while self._marks and self._marks[0][0] <= offset:
            _, wall, whole = self._marks.popleft()
            self.whole_synced = max(self.whole_synced, whole)
        return wall

    def cut(self, end: int) -> None:
        """Follow a cut of the log to `end`: callers that wait for later bytes get False."""
        self.void(end)
        waiting, self._waiting = self._waiting, deque()
        for offset, callback in waiting:
            if offset <= end:
                self._waiting.append((offset, callback))
            else:
                callback(False)

    def void(self, end: int) -> None:
        """Ignore the running syncs beyond `end`, because the log is about to be cut there.

        They say nothing about the bytes that are written there next.
        """
        self._cut_at = min(end, self._cut_at) if self._void else end
        self.whole_synced = min(self.whole_synced, end)
        self._void += [point for point in self._open if point > end]
        self._open = [point for point in self._open if point <= end]
        self._marks = deque(mark for mark in self._marks if mark[0] <= end)

    def release(self) -> None:
        """Call the waiters whose bytes are synced, in order."""
        waiting = self._waiting
        synced = self._pointers.synced
        while waiting and waiting[0][0] <= synced:
            waiting.popleft()[1](True)

    def wait(self, offset: int, callback: Waiter) -> None:
        """Call `callback` with True once `offset` is synced, or with False if it never will be."""
        if self._failed:
            callback(False)
        elif offset <= self._pointers.synced and not self._waiting:
            callback(True)
        else:
            self._waiting.append((offset, callback))

    def fail(self) -> None:
        """Ignore all further syncs, and call all waiters with False."""
        self._failed = True
        self._open.clear()
        while self._waiting:
            self._waiting.popleft()[1](False)
