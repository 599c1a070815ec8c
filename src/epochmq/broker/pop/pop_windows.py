"""POP windows: how far consumer groups have popped their queues ahead of the committed offset.

A pop takes a window of a queue. The committed offset may pass the window only when its check point
is stored on every replica that may be elected, or when all its messages are acknowledged.
Otherwise, after a failover, the committed offset could lie behind messages that have no check point
(INV-28). The windows of a queue become safe in any order, but are committed in queue order.

The module is pure. Only one window of a queue may be on its way into the log at a time (`busy`): if
its write fails, the queue returns to the position before it, and no later window exists.
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
    """A popped range of a queue: from the end of the earlier window up to `after`, exclusive."""

    __slots__ = ("after", "key", "live", "safe")

    def __init__(self, key: QueueKey, after: int) -> None:
        self.key = key
        self.after = after
        self.live = True
        self.safe = False


class Windows:
    """All open POP windows of a broker, by consumer group, topic and queue."""

    def __init__(self) -> None:
        self._open: dict[QueueKey, deque[PopWindow]] = {}
        self._busy: dict[QueueKey, PopWindow] = {}
        self._count = 0

    def busy(self, key: QueueKey) -> bool:
        """Return whether a window of the queue is being written; no other pop may take now."""
        return key in self._busy

    def next_offset(self, key: QueueKey) -> int | None:
        """Return the queue offset where the next pop begins; None means the committed offset."""
        windows = self._open.get(key)
        return windows[-1].after if windows else None

    def width(self, key: QueueKey) -> int:
        """Return the number of open windows of the queue."""
        return len(self._open.get(key, ()))

    def open(self, key: QueueKey, after: int) -> PopWindow:
        check(key not in self._busy, "pop: one window of a queue on its way at a time")
        window = PopWindow(key, after)
        self._open.setdefault(key, deque()).append(window)
        self._busy[key] = window
        self._count += 1
        return window

    def arrived(self, window: PopWindow) -> None:
        """Note that the window's check point is stored; other pops may take from the queue."""
        if self._busy.get(window.key) is window:
            del self._busy[window.key]

    def failed(self, window: PopWindow) -> None:
        """Remove the window, because its check point was not stored; nothing was popped."""
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
        """Mark the window as safe; return the queue offset to commit now.

        None if an earlier window is not safe yet, or if this window was forgotten.
        """
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
        """Forget the windows of a queue whose offset was reset; they commit nothing any more."""
        windows = self._open.pop(key, deque[PopWindow]())
        for window in windows:
            window.live = False
        self._count -= len(windows)
        self._busy.pop(key, None)

    def drop(self, unwanted: Callable[[QueueKey], bool]) -> None:
        """Forget the windows of deleted groups or topics: those for which `unwanted` is true."""
        for key in filter(unwanted, list(self._open)):
            self.forget(key)

    def clear(self) -> None:
        """Forget all windows, because the role has changed."""
        for key in list(self._open):
            self.forget(key)

    def statistics(self) -> dict[str, int]:
        return {"windows": self._count, "queues": len(self._open), "busy": len(self._busy)}
