"""Dispatch: derives consume queue units and index keys from log records (INV-17)."""

from epochmq.model import properties as props
from epochmq.model.names import SCHEDULE_TOPIC
from epochmq.model.property_names import DELAY, KEYS, TAGS, UNIQ_KEY
from epochmq.model.sink_mark import SINK_ID
from epochmq.model.sys_flag import TX_MASK, TX_PREPARED, TX_ROLLBACK
from epochmq.model.tags import java_hash
from epochmq.store.batch_queue import BatchQueue, inner_count
from epochmq.store.consume_queue import WRITE_UNITS, ConsumeQueue
from epochmq.store.draft import PRE_BLANK_SIZE, UNIT
from epochmq.store.held_keys import Staged
from epochmq.store.native_records import AppendedRecords, UnitRun
from epochmq.store.queue_table import QueueTable
from epochmq.store.scan import DispatchEntry
from epochmq.store.sink_runs import MessagePosition
from epochmq.store.sinks import SinkMemory

HOLE_UNITS_MAX = 1 << 20
"""A larger jump of a queue offset is damage, not a hole."""

_TAGS = TAGS.encode()
_KEYS = KEYS.encode()
_UNIQ_KEY = UNIQ_KEY.encode()
_DELAY = DELAY.encode()
_SINK_ID = SINK_ID.encode()
_NO_UNIT = (TX_PREPARED, TX_ROLLBACK)


class QueueGap(Exception):
    """A queue lacks earlier units: all queues must be derived from the log's start."""


def index_keys(properties: bytes) -> tuple[str, ...]:
    """Return UNIQ_KEY and every key of KEYS, in the order in which they are indexed."""
    unique = props.find(properties, _UNIQ_KEY)
    keys = props.find(properties, _KEYS) if _KEYS in properties else None
    found = [] if not unique else [unique.decode("utf-8", "replace")]
    if keys:
        found += [key for key in keys.decode("utf-8", "replace").split(" ") if key]
    return tuple(found)


class LogDispatcher:
    """Dispatches the log's records in order; existing queues must be cut before."""

    def __init__(
        self,
        queues: QueueTable,
        delays_ms: tuple[int, ...],
        *,
        from_start: bool,
        index: bool,
        show: bool = True,
        staged: Staged | None = None,
        sinks: SinkMemory | None = None,
    ) -> None:
        """`from_start`: the first entry is the log's first. `index`: keys are derived.

        Keys are added to `staged`, or to a new list. Messages of sinks are reported to `sinks`.
        """
        self._queues = queues
        self._show = show
        self.touched: dict[ConsumeQueue, None] = {}
        """Queues that grew and are not shown yet (if `show` is False); the caller shows them."""
        self._delays_ms = delays_ms
        self._from_start = from_start
        self._index = index
        self._names: dict[bytes, str] = {}
        self._tags: dict[bytes, int] = {}
        self.staged: Staged = [] if staged is None else staged
        self._sinks = sinks
        self.oddities = 0
        """Records with an impossible queue offset; they get no unit."""

    def _topic(self, raw: bytes) -> str:
        name = self._names.get(raw)
        if name is None:
            name = self._names[raw] = raw.decode("utf-8", "replace")
        return name

    def tags_code(self, entry: DispatchEntry, topic: str) -> int:
        """Return the unit's tags code: the hash of the tag, or the delivery time (ms)."""
        if topic == SCHEDULE_TOPIC:
            level = props.find(entry.properties, _DELAY)
            if level is not None and level.isdigit() and int(level) > 0:
                at = min(int(level), len(self._delays_ms)) - 1
                delay = self._delays_ms[at] if at >= 0 else 1000
                return entry.store_wall_ms + delay
        tag = props.find(entry.properties, _TAGS)
        if not tag:
            return 0
        code = self._tags.get(tag)
        if code is None:
            code = java_hash(tag.decode("utf-8", "replace"))
            if len(self._tags) < 10_000:
                self._tags[tag] = code
        return code

    def add(self, entry: DispatchEntry, *, unit: bool, keys: bool) -> None:
        """Derive unit and keys of a record; raise `QueueGap` if a queue lacks earlier units."""
        topic = self._topic(entry.topic)
        kind = entry.sys_flag & TX_MASK
        if unit and kind not in _NO_UNIT:
            self._add_unit(entry, topic)
        if self._sinks is not None and _SINK_ID in entry.properties and kind not in _NO_UNIT:
            place = MessagePosition(entry.offset, entry.size, entry.queue_id, entry.queue_offset)
            self._sinks.see(topic, props.decode_bytes(entry.properties), place)
        if keys and self._index and kind != TX_ROLLBACK:
            names = index_keys(entry.properties)
            if names:
                self.staged.append((topic, names, entry.offset, entry.store_wall_ms))

    def _add_unit(self, entry: DispatchEntry, topic: str) -> None:
        queue = self._queues.get(topic, entry.queue_id)
        if entry.queue_offset != queue.next:
            if not self._aligned(queue, entry):
                return
            queue = self._queues.get(topic, entry.queue_id)
        tags_code = self.tags_code(entry, topic)
        if isinstance(queue, BatchQueue):
            count = inner_count(entry.sys_flag, entry.properties)
            queue.add(entry.offset, entry.size, tags_code, entry.store_wall_ms, count)
        else:
            queue.tail += UNIT.pack(entry.offset, entry.size, tags_code)
            queue.next += 1
        queue.settled = queue.next
        if not queue.dirty:
            self._queues.mark_dirty(queue)
        if not self._show:
            self.touched[queue] = None
            return
        queue.visible = queue.next
        if queue.next - queue.written >= WRITE_UNITS:
            queue.write_out()

    def add_taken(self, taken: AppendedRecords) -> bool:
        """Add records that the native code decoded; return False if Python must add them.

        If False, nothing has changed except for new queues, which are empty.
        """
        queues = [self._place_of(group) for group in taken.groups]
        if None in queues:
            return False
        for queue, group in zip(queues, taken.groups, strict=True):
            assert queue is not None
            if queue.next != group.first:
                queue.place(group.first, group.first)
            queue.tail += group.units
            queue.next += group.count
            queue.settled = queue.next
            if not queue.dirty:
                self._queues.mark_dirty(queue)
            self.touched[queue] = None
        if taken.keys is not None:
            self.staged.append(taken.keys)
        return True

    def _place_of(self, group: UnitRun) -> ConsumeQueue | None:
        """Return the plain queue that the units of `group` continue or begin; else None."""
        topic = self._topic(group.topic)
        if self._queues.is_batched(topic):
            return None
        queue = self._queues.get(topic, group.queue_id)
        begins = queue.next == queue.min and self._from_start
        good = queue.delay_ms is None and (begins or queue.next == group.first)
        return queue if good else None

    def _aligned(self, queue: ConsumeQueue, entry: DispatchEntry) -> bool:
        """Prepare a queue for the record's unit; return False if the record gets no unit."""
        queue_offset = entry.queue_offset
        if queue.next == queue.min and self._from_start:
            queue.place(queue_offset, queue_offset)
            return True
        if queue_offset == 0:
            # The topic was deleted and created again: its new queue starts at 0 (delete_topic).
            if self._show:
                self._queues.reset(queue)
            else:
                self._queues.renew(queue)
                self.touched.pop(queue, None)
            return True
        hole = queue_offset - queue.next
        if not 0 < hole <= HOLE_UNITS_MAX:
            self.oddities += 1
            return False
        if not self._from_start:
            raise QueueGap
        # rocketmq#6570: a failed append left a hole. Queue offsets must still increase.
        if not isinstance(queue, BatchQueue):
            queue.tail += UNIT.pack(entry.offset, PRE_BLANK_SIZE, 0) * hole
        queue.next += hole
        return True
