"""Message visibility: shows queue ends to readers when the log is readable that far.

Units are made with the append, but shown only when the log is readable up to their records (INV-23,
rocketmq#8239): at once with asynchronous flush, after the sync with synchronous flush, after
confirmation under replication.
"""

from collections import deque
from collections.abc import Callable, Iterable

from epochmq.store.consume_queue import ConsumeQueue
from epochmq.store.gate import Gate
from epochmq.store.pointers import Pointers
from epochmq.store.store_files import StoreFiles

Arrivals = list[tuple[str, int, int]]
"""(topic, queue id, the queue's new visible end) of each queue."""


class Visibility:
    """Queue ends that wait for the log offset that makes them visible, oldest first."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, list[tuple[ConsumeQueue, int]]]] = deque()
        self._backlog: list[ConsumeQueue] = []
        self.arrivals: Callable[[Arrivals], None] | None = None

    def notify_arrivals(self, callback: Callable[[Arrivals], None] | None) -> None:
        """Set the function that is called with the queue ends that become visible, or None."""
        self.arrivals = callback

    def show(self, touched: list[ConsumeQueue]) -> None:
        """Show the ends of the `touched` queues: everything appended so far is readable."""
        for queue in touched:
            queue.visible = queue.next
        if self.arrivals is not None and touched:
            self.arrivals([(queue.topic, queue.queue_id, queue.next) for queue in touched])

    def hold(self, end: int, touched: Iterable[ConsumeQueue]) -> None:
        """Show the ends of these queues later, when the log is readable up to `end`."""
        if touched:
            self._waiting.append((end, [(queue, queue.next) for queue in touched]))

    def hold_all(self, queues: Iterable[ConsumeQueue], readable: int) -> None:
        """Show only readable messages of all queues; for recovery and cuts, which know no runs."""
        self._waiting.clear()
        self._backlog = []
        for queue in queues:
            queue.visible = queue.end_at(readable)
            if queue.visible < queue.next:
                self._backlog.append(queue)

    def advance(self, readable: int) -> None:
        """Show what is readable up to `readable`, which may be inside a run or a record."""
        waiting = self._waiting
        shown: dict[ConsumeQueue, int] = {}
        if self._backlog:
            self._advance_backlog(readable, shown)
        run_end = -1
        while waiting and waiting[0][0] <= readable:
            run_end, run = waiting.popleft()
            for queue, end in run:
                shown[queue] = end
        if waiting and run_end != readable:
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
        """Forget the waiting ends behind `end`, after the log and the queues were cut to `end`."""
        left: dict[ConsumeQueue, None] = {}
        while self._waiting and self._waiting[-1][0] > end:
            left.update((queue, None) for queue, _ in self._waiting.pop()[1])
        self._backlog = [queue for queue in self._backlog if queue.visible < queue.next]
        self.hold(end, [queue for queue in left if queue.visible < queue.next])

    def clear(self) -> None:
        self._waiting.clear()
        self._backlog = []


class ReadLimit:
    """Moves the confirm offset and the end of what readers see, up to the lowest of all bounds."""

    def __init__(
        self,
        files: StoreFiles,
        pointers: Pointers,
        visibility: Visibility,
        gate: Gate,
        whole_end: Callable[[], int],
    ) -> None:
        """`whole_end` returns the log offset up to which records are complete."""
        options = files.options
        self._log = files.log
        self._queues = files.queues
        self._pointers = pointers
        self._visibility = visibility
        self._gate = gate
        self._whole_end = whole_end
        self._sync_flush = options.sync_flush
        self._waits = options.sync_flush or options.transient_pool
        self.confirm_limit: int | None = None
        """Replication's upper bound of `confirmed`; None: no bound."""
        self.at_once = not (self._waits or options.replicated)
        """Whether appended messages are confirmed and readable at once."""

    def advance(self) -> None:
        """Move both offsets; not during a log cut, so that cut messages are not shown again."""
        if self._gate.held:
            return
        pointers = self._pointers
        whole = min(self._whole_end(), self._log.committed)
        target = min(pointers.synced, whole) if self._sync_flush else whole
        limit = self.confirm_limit
        if limit is None:
            pointers.confirmed = max(pointers.confirmed, target)
        elif limit > pointers.confirmed:
            pointers.confirmed = max(pointers.confirmed, min(limit, whole))
        if pointers.reads_bounded:
            target = min(target, pointers.confirmed)
        if target > pointers.dispatched:
            pointers.dispatched = target
            self._visibility.advance(target)
        pointers.check_order()

    def log_grew(self) -> None:
        """Move both offsets after an append, unless replication must confirm more before that."""
        pointers, limit = self._pointers, self.confirm_limit
        if limit is not None and pointers.reads_bounded:
            if limit <= pointers.confirmed == pointers.dispatched:
                return
        self.advance()

    def limit_confirm(self, offset: int | None) -> None:
        """Bound `confirmed`, and so what readers see, by `offset` (replication); None: no bound.

        `confirmed` never decreases here, and never exceeds the complete records of the log.
        """
        self.confirm_limit = offset
        self.at_once = offset is None and not self._waits
        self.advance()

    def start_at(self, confirmed: int) -> None:
        """Bound `confirmed` by the offset that recovery found, and show only what is below it."""
        self.confirm_limit = confirmed
        if confirmed < self._log.end:
            self._visibility.hold_all(self._queues.all(), confirmed)

    def hold(self, touched: list[ConsumeQueue]) -> None:
        """Show the ends of the `touched` queues once the log's complete records are readable."""
        self._visibility.hold(self._whole_end(), touched)
        self.log_grew()

    def hide(self, offset: int) -> None:
        """Show readers only messages below `offset`, even if more was confirmed.

        This happens if the log is cut after an unclean election.
        """
        pointers = self._pointers
        pointers.confirmed = min(pointers.confirmed, offset)
        if pointers.dispatched > offset:
            pointers.dispatched = offset
            self._visibility.hold_all(self._queues.all(), offset)

    def cut(self, offset: int) -> None:
        """Lower the bound of `confirmed` to `offset`, where the log ends after a cut."""
        if self.confirm_limit is not None:
            self.confirm_limit = min(self.confirm_limit, offset)

    def clear(self) -> None:
        """Forget the queue ends that are not shown yet, because the log restarts."""
        self._visibility.clear()
