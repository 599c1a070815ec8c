"""Which bytes are on the device: sync points, and those who wait for them.

One sync serves all appends that came before it (group commit). A sync that fails is final: what it
covered may be lost although later syncs succeed, so nobody is told "synced" any more.
"""

from collections import deque
from collections.abc import Callable

from epochmq.store.commit_log import CommitLog
from epochmq.store.pointers import Pointers

Waiter = Callable[[bool], None]


class Flusher:
    """Owns `pointers.synced`."""

    def __init__(self, log: CommitLog, pointers: Pointers, whole_end: Callable[[], int]) -> None:
        self._log = log
        self._pointers = pointers
        self._waiting: deque[tuple[int, Waiter]] = deque()
        self._marks: deque[tuple[int, int, int]] = deque()
        """Of each sync point: the end, the newest store time, and up to where records are whole."""
        self._whole_end = whole_end
        """Up to where the log is whole records; a follower's may end inside one."""
        self.whole_synced = 0
        """Where a record ends, and everything below is on the device."""
        self._failed = False
        self._open: list[int] = []
        """Ends of the sync points under way; two may have one end (a flush and the index's)."""
        self._void: list[int] = []
        """Ends of sync points taken before the log was cut below them."""
        self._cut_at = 0
        self.count = 0

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for a sync."""
        return bool(self._waiting)

    def point(self, wall: int) -> tuple[int, Callable[[], None]]:
        """The log's end, whose newest message was stored at `wall`, and the call that syncs it."""
        self._log.commit()
        end = self._log.end
        files = [segment.file for segment in self._log.between(self._pointers.synced, end)]
        self._marks.append((end, wall, min(end, self._whole_end())))
        self._open.append(end)

        def sync() -> None:
            for file in files:  # in the log's order: a later file is worth nothing without this one
                file.sync()

        return end, files[0].sync if len(files) == 1 else sync

    def done(self, offset: int) -> int | None:
        """Everything below `offset` is synced; the newest store time below it, when known."""
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
        """The log was cut to `end`, and who waited for more is told that it never will be."""
        self.void(end)
        waiting, self._waiting = self._waiting, deque()
        for offset, callback in waiting:
            if offset <= end:
                self._waiting.append((offset, callback))
            else:
                callback(False)

    def void(self, end: int) -> None:
        """The log is about to be cut to `end`: syncs on their way say nothing about what comes
        there next."""
        self._cut_at = min(end, self._cut_at) if self._void else end
        self.whole_synced = min(self.whole_synced, end)
        self._void += [point for point in self._open if point > end]
        self._open = [point for point in self._open if point <= end]
        self._marks = deque(mark for mark in self._marks if mark[0] <= end)

    def release(self) -> None:
        """Call those whose bytes are synced, in order."""
        waiting = self._waiting
        synced = self._pointers.synced
        while waiting and waiting[0][0] <= synced:
            waiting.popleft()[1](True)

    def wait(self, offset: int, callback: Waiter) -> None:
        """Call back with True once `offset` is synced, with False when it never will be."""
        if self._failed:
            callback(False)
        elif offset <= self._pointers.synced and not self._waiting:
            callback(True)
        else:
            self._waiting.append((offset, callback))

    def fail(self) -> None:
        """No further sync will be believed."""
        self._failed = True
        self._open.clear()
        while self._waiting:
            self._waiting.popleft()[1](False)
