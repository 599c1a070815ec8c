"""Select the messages of one pop: which queues, in which order, from which queue offset."""

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.base.unbounded import UNLIMITED
from epochmq.broker.consume.consumer_offsets import NONE
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.pop.pop_records import (
    NORMAL,
    ORDER_QUEUE,
    RETRY_V1,
    RETRY_V2,
    CheckPoint,
    mark_of,
    retry_name,
)
from epochmq.broker.pop.pop_windows import PopWindow, QueueKey
from epochmq.broker.requests.pop_gate import PopRequest
from epochmq.model import record
from epochmq.model.names import is_retry_topic
from epochmq.model.topic import ANY_QUEUE, PERM_READ_WRITE
from epochmq.store.log_memory import Prefetch
from epochmq.store.read import GetStatus, ReadResult, Verify

_ELSEWHERE = frozenset(
    {
        GetStatus.OFFSET_TOO_SMALL,
        GetStatus.OFFSET_OVERFLOW_BADLY,
        GetStatus.OFFSET_FOUND_NULL,
        GetStatus.MESSAGE_WAS_REMOVING,
    }
)
"""Read results where the offset has no message, and `next_offset` says where to read on."""


class QueuePart:
    """The messages that a pop found in one queue; `window` is None for an ordered pop."""

    __slots__ = ("chunks", "counts", "key", "mark", "offsets", "start", "window")

    def __init__(self, key: QueueKey, mark: str, start: int) -> None:
        self.key = key
        self.mark = mark
        self.start = start
        self.offsets: list[int] = []
        self.chunks: list[memoryview | bytes] = []
        self.counts: tuple[dict[int, int], int] | None = None
        self.window: PopWindow | None = None

    def check_point(self, pop_time: int, invisible_time: int, broker_name: str) -> CheckPoint:
        group, topic, queue_id = self.key
        return CheckPoint(
            topic=topic,
            group=group,
            queue_id=queue_id,
            start=self.start,
            pop_time=pop_time,
            invisible_time=invisible_time,
            deltas=[offset - self.start for offset in self.offsets],
            count=len(self.offsets),
            broker_name=broker_name,
        )


class PopExecution:
    """One execution of a pop: the queues read so far, and the messages found.

    With `from_memory` it leaves out queues whose next messages are not in memory.
    """

    def __init__(
        self, node: BrokerContext, request: PopRequest, now: int, *, from_memory: bool
    ) -> None:
        self._node = node
        self._pop = node.pop
        self._request = request
        self._now = now
        self.room = request.count
        self.rest = 0
        """Number of messages that remain in the queues that were read."""
        self.parts: list[QueuePart] = []
        self.missing: dict[QueueKey, Prefetch] = {}
        """Calls that bring the messages which were left out into memory, by queue."""
        self._from_memory = from_memory and node.cold_reads.has_room
        self.pop_time = node.clock.wall_ms()
        topic = request.topic
        self.revive_queue = ORDER_QUEUE if request.order else node.pop.next_revive_queue(topic)

    def run(self) -> None:
        """Read the topic and its retry topics; an ordered pop reads no retry topics.

        The retry topics are read first with the probability `popFromRetryProbability` (percent).
        """
        request = self._request
        number = self._node.next_number()
        retries = not request.order and not is_retry_topic(request.topic)
        first = number * 37 % 100 < self._node.options.pop_from_retry_probability
        if retries and first:
            self._pop_retries(number)
        self._pop_topic(request.topic, NORMAL, number)
        if retries and not first:
            self._pop_retries(number)

    def _pop_retries(self, number: int) -> None:
        options = self._node.options
        marks = [RETRY_V1, RETRY_V2] if number & 1 else [RETRY_V2, RETRY_V1]
        both = not options.enable_retry_topic_v2 or options.retrieve_message_from_pop_retry_topic_v1
        for mark in marks:
            if mark == RETRY_V2 or both:
                name = retry_name(self._request.group, self._request.topic, mark)
                if self._has(name):
                    self._pop_topic(name, mark, number)

    def _has(self, name: str) -> bool:
        """Return whether the retry topic exists.

        After a crash a retry topic can have messages and no configuration; the configuration is
        then created.
        """
        node = self._node
        if name in node.topics:
            return True
        if node.store.queue_bounds(name, 0)[1] <= 0:
            return False
        node.topics.ensure(name, 1, PERM_READ_WRITE, node.clock.wall_ms())
        return True

    def _pop_topic(self, topic: str, mark: str, number: int) -> None:
        config = self._node.topics.get(topic)
        count = 1 if config is None else config.read_queue_nums
        if mark == NORMAL and self._request.key.queue_id != ANY_QUEUE:
            queues = [self._request.key.queue_id]
        else:
            queues = [(number + step) % count for step in range(count)]
        for queue_id in queues:
            key = QueueKey(self._request.group, topic, queue_id)
            if self.room > 0:
                self._pop_queue(key, mark)
            else:
                low, high = self._node.store.queue_bounds(topic, queue_id)
                self.rest += max(high - max(self._offset(key), low), 0)

    # One queue -------------------------------------------------------------------------------

    def _offset(self, key: QueueKey) -> int:
        """Return the next queue offset of the group, `NONE` when the group never read the queue."""
        taken = self._pop.windows.next_offset(key)
        return self._node.offsets.get(*key) if taken is None else taken

    def _pop_queue(self, key: QueueKey, mark: str) -> None:
        request, pop = self._request, self._pop
        if pop.windows.busy(key):
            return
        self._reset(key)
        if request.order and pop.orders.blocked(key, request.attempt_id, self._now):
            return
        # An ordered pop begins at the committed offset: the first message without acknowledgement.
        offset = self._node.offsets.get(*key) if request.order else self._offset(key)
        if offset == NONE:
            offset = self._begin(key, mark)
        found = self._read(key, mark, offset)
        if found.status in _ELSEWHERE:
            offset = found.next_offset
            found = self._read(key, mark, offset)
            if not found.count and found.prefetch is None:
                self._skip(key, offset)
        if found.prefetch is not None:
            self.missing[key] = found.prefetch
        if found.status is GetStatus.NO_MATCHED_MESSAGE:
            self._skip(key, found.next_offset)
        if found.count:
            self._pop_found(key, offset, found)
        if found.status is not GetStatus.DAMAGED:  # else the client would pop again at once
            self.rest += max(found.max_offset - found.next_offset, 0)

    def _reset(self, key: QueueKey) -> None:
        """Apply a reset of the group's offset by an administrator: forget the pops in flight."""
        offset = self._node.offsets.pop_reset(*key)
        if offset is None:
            return
        self._pop.windows.forget(key)
        self._pop.orders.forget(key)
        self._node.offsets.commit(*key, offset, self._node.clock.wall_ms())

    def _begin(self, key: QueueKey, mark: str) -> int:
        """Choose and commit the first offset of a group that has none.

        The offset is committed at once, because the end of the queue moves on. "At the end" means
        at the last stored message, as in RocketMQ. Retry topics are always read from the first
        message (rocketmq#8402).
        """
        low, high = self._node.store.queue_bounds(key.topic, key.queue_id)
        at_end = self._request.from_end and mark == NORMAL
        offset = max(high - 1, low, 0) if at_end else max(low, 0)
        self._node.offsets.commit(*key, offset, self._node.clock.wall_ms())
        return offset

    def _read(self, key: QueueKey, mark: str, offset: int) -> ReadResult:
        request = self._request
        wanted = mark == NORMAL
        count, stop = self.room, UNLIMITED
        if request.order:
            count = max(count, self._pop.orders.out_of(key, request.attempt_id))
            stop = offset + limits.POP_ORDER_SPAN_MAX
        return self._node.store.read_queue(
            key.topic,
            key.queue_id,
            offset,
            count,
            self._node.options.max_transfer_bytes_on_message_in_memory,
            request.accept if wanted else None,
            self._verify(key, wanted),
            stop=stop,
            from_memory=self._from_memory,
        )

    def _verify(self, key: QueueKey, wanted: bool) -> Verify | None:
        """Return the check of a record. Acknowledged messages of an ordered batch fail it."""
        verify = self._request.verify if wanted else None
        acked = self._pop.orders.done_with(key) if self._request.order else None
        if not acked:
            return verify

        def check(raw: memoryview) -> bool | None:
            if record.queue_offset_at(raw, 0) in acked:
                return False
            return verify is None or verify(raw)

        return check

    def _skip(self, key: QueueKey, after: int) -> None:
        """Advance the group's offset to `after` once earlier pops of the queue are complete."""
        pop = self._pop
        window = pop.windows.open(key, after)
        pop.windows.arrived(window)
        pop.finish_window(window, self.pop_time)

    def _pop_found(self, key: QueueKey, offset: int, found: ReadResult) -> None:
        part = QueuePart(key, mark_of(key.topic), offset)
        for chunk in found.chunks:
            at = 0
            while at < len(chunk):
                part.offsets.append(record.queue_offset_at(chunk, at))
                at += record.size_at(chunk, at)
            part.chunks.append(chunk)
        if self._request.order:
            pop = self.pop_time, self._request.invisible_time
            part.counts = self._pop.orders.out(
                key, self._request.attempt_id, pop, part.offsets, self._now
            )
            if part.counts is None:
                return
        else:
            part.window = self._pop.windows.open(key, found.next_offset)
        self.parts.append(part)
        self.room -= len(part.offsets)

    def copy_messages(self) -> int:
        """Copy the messages: the log may be truncated or deleted before the answer is sent.

        Returns the size of the copies in bytes.
        """
        for part in self.parts:
            part.chunks = [bytes(chunk) for chunk in part.chunks]
        return sum(len(chunk) for part in self.parts for chunk in part.chunks)

    def give_up(self) -> None:
        """Undo this pop: release the windows that it opened."""
        for part in self.parts:
            if part.window is not None:
                self._pop.windows.failed(part.window)


def execute_pop(
    node: BrokerContext, request: PopRequest, now: int, *, from_memory: bool
) -> PopExecution:
    """Execute a pop; with `from_memory` without waiting for the device.

    Raises `Refused` when the table of consumer offsets is full; nothing is popped then.
    """
    execution = PopExecution(node, request, now, from_memory=from_memory)
    try:
        execution.run()
    except Refused:
        execution.give_up()
        raise
    return execution
