"""Offsets that this member wants committed, and which of them the broker does not have yet."""

from epochmq.model.queue import MessageQueue


class OffsetTable:
    """Only rises for a queue unless it is set on purpose (INV-29)."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}
        self._unsaved: dict[MessageQueue, int] = {}

    def advance(self, queue: MessageQueue, offset: int) -> None:
        """Consumption reached `offset`; one that is behind is ignored."""
        if offset > self._offsets.get(queue, -1):
            self.reset(queue, offset)

    def reset(self, queue: MessageQueue, offset: int) -> None:
        """An operator or the start rule put the queue at `offset`."""
        self._offsets[queue] = offset
        self._unsaved[queue] = offset

    def loaded(self, queue: MessageQueue, offset: int) -> None:
        """The broker holds `offset` for the queue."""
        self._offsets[queue] = offset

    def get(self, queue: MessageQueue) -> int | None:
        """The newest offset known of `queue`."""
        return self._offsets.get(queue)

    def pop_unsaved(self, queue: MessageQueue | None = None) -> dict[MessageQueue, int]:
        """What must be sent to the brokers now; of one queue, or of all."""
        if queue is None:
            taken, self._unsaved = self._unsaved, {}
            return taken
        offset = self._unsaved.pop(queue, None)
        return {} if offset is None else {queue: offset}

    def not_saved(self, queue: MessageQueue, offset: int) -> None:
        """Sending failed: try again with the next round, unless it moved on meanwhile."""
        self._unsaved.setdefault(queue, offset)

    def drop(self, queue: MessageQueue) -> None:
        """The queue went to another member."""
        self._offsets.pop(queue, None)
        self._unsaved.pop(queue, None)

    def snapshot(self) -> dict[MessageQueue, int]:
        """All offsets, for status requests."""
        return dict(self._offsets)
