"""The table of all consume queues, by topic and queue id."""

from collections.abc import Callable, Mapping

from epochmq.base.errors import StoreDamaged
from epochmq.base.ports import Disk
from epochmq.model.names import SCHEDULE_TOPIC
from epochmq.store.batch_queue import ROOT as BATCH_ROOT
from epochmq.store.batch_queue import BatchQueue
from epochmq.store.consume_queue import ROOT, ConsumeQueue
from epochmq.store.draft import BATCH_UNIT, UNIT_BYTES
from epochmq.store.options import StoreOptions
from epochmq.store.queue_files import QueueFiles

QueueTypes = Callable[[str], bool | None]
"""Whether a topic has batch queues (`queue.type` is BatchCQ); None for an unknown topic."""


def unknown_type(_topic: str) -> bool | None:
    """Return None: the topics' types are unknown, so queues have the type found on the disk."""
    return None


class QueueTable:
    """All queues; an append looks `topics[topic][queue_id]` up once per message.

    The few topics with batch queues are kept in another table, so that they cost the others
    nothing.
    """

    def __init__(self, disk: Disk, options: StoreOptions, types: QueueTypes = unknown_type) -> None:
        self._disk = disk
        self._options = options
        self._file_bytes = _whole(options.consume_queue_file_bytes, UNIT_BYTES)
        self._batch_file_bytes = _whole(options.batch_queue_file_bytes, BATCH_UNIT.size)
        self.files = QueueFiles(disk, options.queue_files_open_max)
        self._types = types
        self.topics: dict[str, dict[int, ConsumeQueue]] = {}
        self.batch: dict[str, dict[int, BatchQueue]] = {}
        self.dirty: list[ConsumeQueue] = []
        """Queues with units that are not in a file yet, each queue once."""

    def use_types(self, types: QueueTypes) -> None:
        """Set the function that returns the queue type of a topic."""
        self._types = types

    def names(self) -> list[str]:
        """Return all topics that have queues."""
        return [*self.topics, *self.batch]

    @property
    def count(self) -> int:
        """Number of queues."""
        return sum(map(len, self.topics.values())) + sum(map(len, self.batch.values()))

    def of(self, topic: str) -> Mapping[int, ConsumeQueue]:
        """Return a topic's queues by id."""
        return self.topics.get(topic) or self.batch.get(topic) or {}

    def ids(self, topic: str) -> list[int]:
        """Return the sorted ids of a topic's queues."""
        return sorted(self.of(topic))

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        queues = self.topics.get(topic)
        return self.of(topic).get(queue_id) if queues is None else queues.get(queue_id)

    def get(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return the queue; a new queue is created empty."""
        if self.is_batched(topic):
            return self._get_batch(topic, queue_id)
        return self._get_plain(topic, queue_id)

    def is_batched(self, topic: str) -> bool:
        """Whether a topic has batch queues: existing queues decide, else the topic's attribute."""
        return topic in self.batch or (topic not in self.topics and bool(self._types(topic)))

    def _get_plain(self, topic: str, queue_id: int) -> ConsumeQueue:
        queues = self.topics.setdefault(topic, {})
        queue = queues.get(queue_id)
        if queue is None:
            queue = ConsumeQueue(topic, queue_id, self.files, self._file_bytes)
            if topic == SCHEDULE_TOPIC:
                delays = self._options.delays_ms
                known = 0 <= queue_id < len(delays)
                queue.delay_ms = delays[queue_id] if known else 1000
            queues[queue_id] = queue
        return queue

    def _get_batch(self, topic: str, queue_id: int) -> BatchQueue:
        queues = self.batch.setdefault(topic, {})
        queue = queues.get(queue_id)
        if queue is None:
            queue = BatchQueue(topic, queue_id, self.files, self._batch_file_bytes)
            queues[queue_id] = queue
        return queue

    def all(self) -> list[ConsumeQueue]:
        return [queue for topic in self.names() for queue in self.of(topic).values()]

    def load(self) -> None:
        """Find the queues on disk; `ConsumeQueue.load` finds their bounds.

        Raises `StoreDamaged` if a topic's queues are not of its type.
        """
        for root, get in ((ROOT, self._get_plain), (BATCH_ROOT, self._get_batch)):
            for topic in self._disk.list(root):
                for name in self._disk.list(f"{root}/{topic}"):
                    if name.isdecimal():
                        get(topic, int(name)).load()
        self.prune()
        for topic in self.names():
            self._check_type(topic)

    def _check_type(self, topic: str) -> None:
        """Refuse to start, like RocketMQ, if a topic's queues are of the wrong type."""
        batched = self._types(topic)
        if batched is None:
            batched = topic not in self.topics
        wrong = ROOT if batched else BATCH_ROOT
        if topic in (self.topics if batched else self.batch):
            raise StoreDamaged(
                f"the queues of topic {topic} should be {'BatchCQ' if batched else 'SimpleCQ'}"
                f" (its attribute queue.type in config/topics.json), but {wrong}/{topic} has data;"
                " put the attribute back to what it was, or delete the directories consumequeue"
                " and batchconsumequeue (they are derived from the log)"
            )

    def prune(self) -> None:
        """Remove queues that apparently never had a unit."""
        for table in (self.topics, self.batch):
            for topic in list(table):
                queues: dict[int, ConsumeQueue] = table[topic]  # type: ignore[assignment]
                for queue in [queue for queue in queues.values() if queue.is_unused]:
                    del queues[queue.queue_id]
                if not queues:
                    del table[topic]

    def reset(self, queue: ConsumeQueue, next_offset: int = 0) -> None:
        """Delete all units of a queue; its next offset becomes `next_offset`."""
        self.files.forget(queue.folder)
        self._disk.remove(queue.folder)
        queue.place(next_offset, next_offset)

    def renew(self, queue: ConsumeQueue) -> ConsumeQueue:
        """Replace `queue`, which others may still wait to show, by an empty queue; return that."""
        self.reset(queue)
        self.dirty = [other for other in self.dirty if other is not queue]
        table = self.batch if isinstance(queue, BatchQueue) else self.topics
        del table[queue.topic][queue.queue_id]
        return self.get(queue.topic, queue.queue_id)

    def reset_all(self) -> None:
        """Delete all units of all queues."""
        for root in (ROOT, BATCH_ROOT):
            self.files.forget(root)
            self._disk.remove(root)
        self.topics.clear()
        self.batch.clear()
        self.dirty.clear()

    def mark_dirty(self, queue: ConsumeQueue) -> None:
        """Note that `queue` has units to write."""
        queue.dirty = True
        self.dirty.append(queue)

    def write_some(self, count: int) -> int:
        """Write out up to `count` dirty queues; return how many remain."""
        while self.dirty and count > 0:
            queue = self.dirty[-1]
            queue.write_out()
            queue.dirty = False
            self.dirty.pop()
            count -= 1
        return len(self.dirty)

    def delete(self, topic: str) -> None:
        """Delete a topic's queues and their files."""
        queues = self.of(topic)
        self.topics.pop(topic, None)
        self.batch.pop(topic, None)
        gone = set(map(id, queues.values()))
        for queue in queues.values():
            queue.place(queue.next, queue.next)  # its units are not written any more
        self.dirty = [queue for queue in self.dirty if id(queue) not in gone]
        for root in (ROOT, BATCH_ROOT):
            self.files.forget(f"{root}/{topic}")
            self._disk.remove(f"{root}/{topic}")


def _whole(size: int, unit_bytes: int) -> int:
    """Return `size` rounded up to a multiple of `unit_bytes`."""
    return -(-size // unit_bytes) * unit_bytes
