"""How far groups have taken their queues, ahead of what is committed.

A pop takes a window of a queue. The group's committed offset may pass the window only once its
check point is safe on every replica that may be elected, or cancelled by acknowledgements: else a
failover would find an offset behind messages that nobody remembers (INV-28). Windows of a queue
become safe in any order and are committed in theirs.

Pure. One window of a queue at a time may be on its way into the log (`busy`): when it fails, the
queue goes back to where it stood, with nothing taken behind it.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from epochmq.base.errors import check


class QueueKey(NamedTuple):
    group: str
    topic: str
    queue_id: int


class PopWindow:
    """Everything of a queue before `after` that was not in an earlier window."""

    __slots__ = ("after", "key", "live", "safe")

    def __init__(self, key: QueueKey, after: int) -> None:
        self.key = key
        self.after = after
        self.live = True
        self.safe = False


class Windows:
    """All open windows of a broker."""

    def __init__(self) -> None:
        self._open: dict[QueueKey, deque[PopWindow]] = {}
        self._busy: dict[QueueKey, PopWindow] = {}
        self._count = 0

    def busy(self, key: QueueKey) -> bool:
        """Whether a window of the queue is on its way: nobody else takes of it now."""
        return key in self._busy

    def next_offset(self, key: QueueKey) -> int | None:
        """Where the next pop begins; None when the committed offset says it."""
        windows = self._open.get(key)
        return windows[-1].after if windows else None

    def width(self, key: QueueKey) -> int:
        """Open windows of the queue."""
        return len(self._open.get(key, ()))

    def open(self, key: QueueKey, after: int) -> PopWindow:
        check(key not in self._busy, "pop: one window of a queue on its way at a time")
        window = PopWindow(key, after)
        self._open.setdefault(key, deque()).append(window)
        self._busy[key] = window
        self._count += 1
        return window

    def arrived(self, window: PopWindow) -> None:
        """Its check point is kept: others may take of the queue again."""
        if self._busy.get(window.key) is window:
            del self._busy[window.key]

    def failed(self, window: PopWindow) -> None:
        """Its check point was not kept: nothing was taken."""
        if self._busy.get(window.key) is not window:
            return  # forgotten by a reset
        del self._busy[window.key]
        windows = self._open[window.key]
        check(windows[-1] is window, "pop: nothing is taken behind a window on its way")
        windows.pop()
        window.live = False
        self._count -= 1
        if not windows:
            del self._open[window.key]

    def offset_to_commit(self, window: PopWindow) -> int | None:
        """The window is safe: the offset to commit now, None when it must wait or was forgotten."""
        if not window.live:
            return None
        windows = self._open[window.key]
        window.safe = True
        commit = None
        while windows and windows[0].safe:
            first = windows.popleft()
            first.live = False
            commit = first.after
            self._count -= 1
        if not windows:
            del self._open[window.key]
        return commit

    def forget(self, key: QueueKey) -> None:
        """An offset was reset: what is under way decides nothing any more."""
        windows = self._open.pop(key, deque[PopWindow]())
        for window in windows:
            window.live = False
        self._count -= len(windows)
        self._busy.pop(key, None)

    def drop(self, unwanted: Callable[[QueueKey], bool]) -> None:
        """Groups or topics are deleted: what is made anew under such a name begins anew."""
        for key in filter(unwanted, list(self._open)):
            self.forget(key)

    def clear(self) -> None:
        """Another role."""
        for key in list(self._open):
            self.forget(key)

    def statistics(self) -> dict[str, int]:
        return {"windows": self._count, "queues": len(self._open), "busy": len(self._busy)}
