"""What readers may see: queue ends that follow the readable position of the log.

Units are made with the append, but shown only when the log is readable that far (INV-23,
rocketmq#8239): at once with asynchronous flush, after the sync with synchronous flush, after
confirmation under replication.
"""

from collections import deque
from collections.abc import Callable, Iterable

from epochmq.store.consume_queue import ConsumeQueue

Arrivals = list[tuple[str, int, int]]
"""(topic, queue id, the queue's new visible end)."""


class Visibility:
    """Queue ends waiting for the log position that makes them visible, oldest first."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, list[tuple[ConsumeQueue, int]]]] = deque()
        self._backlog: list[ConsumeQueue] = []
        self.arrivals: Callable[[Arrivals], None] | None = None

    def show(self, touched: list[ConsumeQueue]) -> None:
        """Everything appended so far is readable: show the ends of the `touched` queues."""
        for queue in touched:
            queue.visible = queue.next
        if self.arrivals is not None and touched:
            self.arrivals([(queue.topic, queue.queue_id, queue.next) for queue in touched])

    def hold(self, end: int, touched: Iterable[ConsumeQueue]) -> None:
        """Show these queues' ends once the log is readable up to `end`."""
        if touched:
            self._waiting.append((end, [(queue, queue.next) for queue in touched]))

    def hold_all(self, queues: Iterable[ConsumeQueue], readable: int) -> None:
        """Show of all queues only what is readable; recovery knows no runs to wait for."""
        self._waiting.clear()
        self._backlog = []
        for queue in queues:
            queue.visible = queue.end_at(readable)
            if queue.visible < queue.next:
                self._backlog.append(queue)

    def advance(self, readable: int) -> None:
        """The log is now readable up to `readable`, which may lie inside a run or a record."""
        waiting = self._waiting
        shown: dict[ConsumeQueue, int] = {}
        if self._backlog:
            self._advance_backlog(readable, shown)
        while waiting and waiting[0][0] <= readable:
            for queue, end in waiting.popleft()[1]:
                shown[queue] = end
        if waiting:
            for queue, _ in waiting[0][1]:
                end = queue.end_at(readable, shown.get(queue, queue.visible))
                if end > queue.visible:
                    shown[queue] = end
        for queue, end in shown.items():
            queue.visible = end
        if shown and self.arrivals is not None:
            self.arrivals([(queue.topic, queue.queue_id, end) for queue, end in shown.items()])

    def _advance_backlog(self, readable: int, shown: dict[ConsumeQueue, int]) -> None:
        left: list[ConsumeQueue] = []
        for queue in self._backlog:
            end = queue.end_at(readable, queue.visible)
            if end > queue.visible:
                shown[queue] = end
            if end < queue.next:
                left.append(queue)
        self._backlog = left

    def cut(self, end: int) -> None:
        """The log was cut to `end` and so were the queues: nothing behind it will be shown."""
        left: dict[ConsumeQueue, None] = {}
        while self._waiting and self._waiting[-1][0] > end:
            left.update((queue, None) for queue, _ in self._waiting.pop()[1])
        self._backlog = [queue for queue in self._backlog if queue.visible < queue.next]
        self.hold(end, [queue for queue in left if queue.visible < queue.next])

    def clear(self) -> None:
        self._waiting.clear()
        self._backlog = []
