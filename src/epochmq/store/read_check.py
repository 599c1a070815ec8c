"""Read verification: checks old bytes of the log, and old queue units, before they are returned.

Bytes that this process appended, or derived at its start, were checked then: for readers at a
queue's end the check is one comparison. Everything older is checked once, at its first read:

- each block of 64 KiB is read by `File.read`, which raises an error where access to the mapping
  would kill the process, and compared with its checksum if it has one (`checksums`);
- each unit of a queue is compared with its record: log offset, size, topic, queue, queue offset,
  tag hash; the record's body is compared with its own checksum if its blocks have none.

A damaged unit is derived from the log again. A damaged record is reported in the `DamageTable`, and
reads of it are refused until it is repaired.
"""

import logging
from collections.abc import Callable
from functools import partial

from epochmq.base.errors import DiskFailed, EnvironmentFault
from epochmq.model.record import check
from epochmq.native import library
from epochmq.store.batch_queue import BatchQueue, inner_count
from epochmq.store.checksums import BlockVerdict
from epochmq.store.chores import Chores
from epochmq.store.consume_queue import ConsumeQueue
from epochmq.store.damaged_ranges import DamagedRange, DamageTable
from epochmq.store.dispatch import LogDispatcher
from epochmq.store.draft import BATCH_UNIT, FRONT, PRE_BLANK_SIZE, UNIT
from epochmq.store.native_records import guard
from epochmq.store.scan import DispatchEntry, ScanEnd, walk
from epochmq.store.segment import Segment
from epochmq.store.store_files import StoreFiles
from epochmq.store.unit_search import UnitSearch
from epochmq.store.units import NativeUnits
from epochmq.store.written_blocks import BLOCK_BYTES

_log = logging.getLogger(__name__)

SLICES_AT_ONCE = 4
"""Number of log slices searched for one record at once; a longer search becomes a chore."""

NEIGHBOURS_MAX = 64
"""Number of units on each side that are examined to find a sound one."""

_UNSEEN, _READABLE, _SOUND, _WRONG = range(4)
_FAR = 1 << 62


class ReadCheck:
    """Knows which bytes are checked, and checks bytes that this process has not written."""

    def __init__(
        self,
        files: StoreFiles,
        chores: Chores,
        on_shortened: Callable[[int, str], None],
    ) -> None:
        """`on_shortened` is called if another program has shortened a log file.

        It gets the log offset where the file ends now, and a text that says so.
        """
        self._disk = files.disk
        self._log = files.log
        self._queues = files.queues
        self._checksums = files.checksums
        self.damage = DamageTable()
        """Ranges of the log whose reads are refused."""
        self._tags_code = LogDispatcher(
            files.queues, files.options.delays_ms, from_start=True, index=False
        ).tags_code
        self._chores = chores
        self._on_shortened = on_shortened
        native = library.library()
        self._native = None if native is None else NativeUnits(native)
        self._states: dict[int, bytearray] = {}
        """The state of each block, by the start of its log file."""
        self.fresh = 0
        """Bytes behind this log offset were written, or checked at start, by this process."""
        self._faults = 0 if (guarded := guard()) is None else guarded.faults

    # Blocks -----------------------------------------------------------------------------------

    def forget(self, start: int, end: int) -> None:
        """Check the blocks of `[start, end)` again, because these bytes were rewritten."""
        for segment in self._log.between(start, end):
            states = self._states.get(segment.start)
            if states is not None:
                first = max(start - segment.start, 0) // BLOCK_BYTES
                last = -(-(min(end, segment.end) - segment.start) // BLOCK_BYTES)
                states[first:last] = bytes(last - first)

    def cut(self, end: int) -> None:
        """Follow a cut of the log to `end`; bytes that are written there next are new."""
        self.fresh = min(self.fresh, end)
        self.damage.clear(end, _FAR)

    def restart(self, offset: int) -> None:
        """Forget everything, because the log restarts at `offset`."""
        self.fresh = offset
        self._states.clear()
        self.damage.clear(0, _FAR)

    def drop_below(self, log_start: int) -> None:
        """Forget the log below `log_start`, which retention deleted."""
        if self.damage.ranges:
            self.damage.clear(0, log_start)
        for start in [start for start in self._states if start < log_start]:
            del self._states[start]

    def fault_in(self, offset: int, size: int) -> DamagedRange | None:
        """Return the damage in `[offset, offset + size)` of one log file; None if it is
        readable.
        """
        if self.damage.ranges and (known := self.damage.find(offset, offset + size)):
            return known
        if offset >= self.fresh:
            return None
        segment = self._log.find(offset)
        if segment is None:
            return None
        self._look_at_size(segment)
        self._look(segment, offset, min(offset + size, segment.end))
        return self.damage.find(offset, offset + size) if self.damage.ranges else None

    def look_at_faults(self) -> None:
        """Handle mapped pages that could not be read and were replaced by zeros: check all
        again.
        """
        guarded = guard()
        if guarded is None or guarded.faults == self._faults:
            return
        self._faults = guarded.faults
        _log.error("a page of a mapped file could not be read; the log is checked again")
        for segment in self._log.segments:
            segment.forget_view()
        self._states.clear()
        self.look_at_sizes()
        self.distrust()

    def look_at_sizes(self) -> None:
        """Find log files that another program shortened, before their mappings are used."""
        for segment in self._log.segments:
            self._look_at_size(segment)

    def distrust(self) -> None:
        """Trust no byte that is in the log now: compare all units and records again."""
        self.fresh = self._log.end
        for queue in self._queues.all():
            run = _run(queue)
            run.trusted = run.next
            run.checked.clear()

    def found_changed(self, queue: ConsumeQueue, number: int) -> None:
        """Handle a record that differs from when its unit was checked: check everything again."""
        _log.error("%s: the record of message %d has changed on the disk; the log is checked again",
                   queue.folder, number)  # fmt: skip
        self.distrust()

    def _look_at_size(self, segment: Segment) -> None:
        try:
            size = self._disk.size(segment.path)
        except EnvironmentFault as error:
            _log.debug("%s: %s", segment.path, error)
            return
        if size >= segment.end - segment.start:
            return
        start, end = segment.start + size, min(segment.end, self._log.end)
        if start < end and not self.damage.find(start, end):
            reason = f"{segment.path} was shortened to {size} bytes"
            self.damage.report(start, end, reason)
            self._states.pop(segment.start, None)
            self.distrust()
            self._on_shortened(start, reason)

    def _look(self, segment: Segment, low: int, high: int) -> bool:
        """Read the unread blocks of `[low, high)`; return whether all have correct checksums."""
        states = self._states.get(segment.start)
        if states is None:
            count = -(-(segment.end - segment.start) // BLOCK_BYTES)
            states = self._states[segment.start] = bytearray(count)
        first = (low - segment.start) // BLOCK_BYTES
        last = (high - 1 - segment.start) // BLOCK_BYTES
        sound = True
        for number in range(first, last + 1):
            state = states[number] or self._read_block(segment, number, states)
            sound = sound and state == _SOUND
        return sound

    def _read_block(self, segment: Segment, number: int, states: bytearray) -> int:
        start = segment.start + number * BLOCK_BYTES
        if start >= self.fresh:
            return _READABLE
        end = min(start + BLOCK_BYTES, segment.end)
        try:
            data = segment.file.read(start - segment.start, end - start)
        except DiskFailed as error:
            self.damage.report(start, end, str(error))
            return _UNSEEN
        except EnvironmentFault:
            return _UNSEEN  # lack of memory says nothing about the file
        if len(data) < end - start:
            self._look_at_size(segment)
            return _UNSEEN
        block = self._checksums.block_at(start)
        verdict = block.verify(data)
        if verdict is BlockVerdict.WRONG:
            self.damage.report(
                start, start + block.covered, "the bytes do not agree with their checksum"
            )
            states[number] = _WRONG
        elif verdict is BlockVerdict.OK and start + block.covered == end:
            states[number] = _SOUND
        else:
            states[number] = _READABLE
        return states[number]

    # Units ------------------------------------------------------------------------------------

    def units(
        self, queue: ConsumeQueue, first: int, data: bytes, room: int
    ) -> tuple[bytes, DamagedRange | None]:
        """Return the usable leading units of `data`, and the damage that stops there, or None.

        `first` is the number of the first unit. Units behind `room` bytes of records are not
        needed. Damaged units are returned rebuilt.
        """
        run = _run(queue)
        stop = first + len(data) // run.unit_bytes
        if not (data and self.damage.ranges and self._reaches_damage(run, data)):
            stop = min(stop, max(run.trusted, first))
            if run.checked.covers(first, stop):
                return data, None
        at, total = first, 0
        while at < stop and total < room:
            low, high = (at - first) * run.unit_bytes, (stop - first) * run.unit_bytes
            good, size = self._agreeing(queue, run, at, data[low:high], room - total)
            if not good:
                high = low + run.unit_bytes
                unit = self._examine(queue, run, at, data[low:high])
                if isinstance(unit, DamagedRange):
                    return data[:low], unit
                data = data[:low] + unit + data[high:]
                good, size = 1, _size(run, unit)
            run.checked.add(at, at + good)
            at += good
            total += size
        return (data if at == stop else data[: (at - first) * run.unit_bytes]), None

    def _reaches_damage(self, run: ConsumeQueue, data: bytes) -> bool:
        """Whether known damage is between the records of the first and the last unit."""
        low, _, _ = run.shape.unpack_from(data)
        high, size, _ = run.shape.unpack_from(data, len(data) - run.unit_bytes)
        return self.damage.find(low, high + size) is not None

    def set_floor(self, queue: ConsumeQueue, log_start: int) -> None:
        """Raise the queue's `min` to the log's start, using checked units."""
        run = _run(queue)
        if run is not queue and run.min < run.next:
            self.units(
                queue, run.min, run.units(run.min, 1), 1
            )  # this unit determines where the queue begins
        before = run.min
        queue.set_floor(log_start)
        if before < run.min <= run.trusted and self._hides(queue, run, run.min - 1):
            run.min, queue.floor, run.floor = before, -1, -1
            queue.set_floor(log_start)

    def _hides(self, queue: ConsumeQueue, run: ConsumeQueue, number: int) -> bool:
        """Rebuild a unit that points before the log's start because of one wrong bit.

        Returns whether the unit was rebuilt. Nothing else would ever read such a unit.
        """
        data = run.units(number, 1)
        offset, size, _ = run.shape.unpack(data)
        after = run.unit(number + 1)
        if size == PRE_BLANK_SIZE or after is None:
            return False
        for bit in range(63):
            place = offset ^ 1 << bit
            if self._log.start <= place < after[0] and self._begins(place):
                unit = self._unit_at(queue, number, place, data)
                if unit is not None:
                    return not isinstance(
                        self._rebuilt(queue, run, number, data, unit), DamagedRange
                    )
        return False

    def _begins(self, offset: int) -> bool:
        """Whether a record at `offset` contains this offset; reads only the record's front."""
        segment = self._log.find(offset)
        if segment is None:
            return False
        try:
            front = segment.file.read(offset - segment.start, FRONT.size)
        except EnvironmentFault:
            return False
        return len(front) == FRONT.size and FRONT.unpack(front)[6] == offset

    def _agreeing(
        self, queue: ConsumeQueue, run: ConsumeQueue, first: int, data: bytes, room: int
    ) -> tuple[int, int]:
        """Return (number of leading units that match sound records, bytes of those), natively."""
        if self._native is None or run is not queue or queue.delay_ms is not None:
            return 0, 0
        segment: Segment | None = None
        count = total = 0
        crc = False
        for at, size, _tags in UNIT.iter_unpack(data):
            if segment is None:
                segment = self._log.find(at)
                if segment is None:
                    return 0, 0
                self._look_at_size(segment)
                end = min(segment.end, self._log.committed)
            if at < segment.start or size <= 0 or at + size > end or total >= room:
                break
            crc = not self._look(segment, at, at + size) or crc
            if self.damage.ranges and self.damage.find(at, at + size):
                break
            count += 1
            total += size
        if segment is None or not count:
            return 0, 0
        return self._native.verify(
            segment,
            end,
            data[: count * UNIT.size],
            first,
            queue.queue_id,
            queue.topic.encode(),
            crc=crc,
            room=room,
        )

    def _examine(
        self, queue: ConsumeQueue, run: ConsumeQueue, number: int, data: bytes
    ) -> bytes | DamagedRange:
        """Check one unit that did not match; return it, the rebuilt unit, or the damage."""
        offset, size, _ = run.shape.unpack(data)
        if size == PRE_BLANK_SIZE and run is queue:
            return data
        low, high = self._bounds(queue, run, number)
        if low <= offset < high:
            found = self._unit_at(queue, number, offset, data)
            if found is not None:
                return self._rebuilt(queue, run, number, data, found)
            if 0 < size <= high - offset and (known := self.fault_in(offset, size)):
                return known
        return self._search(queue, run, number, data, (low, high))

    def _unit_at(
        self, queue: ConsumeQueue, number: int, offset: int, data: bytes
    ) -> bytes | DamagedRange | None:
        """Return the unit of the record at `offset` if it is the right one, or its damage, or
        None.
        """
        segment = self._log.find(offset)
        if segment is None:
            return None
        head = min(segment.end, self._log.committed, offset + BLOCK_BYTES)
        if self.fault_in(offset, 8):
            return None
        self._look(segment, offset, head)
        size = int.from_bytes(segment.view[offset - segment.start :][:4])
        if offset + size > min(segment.end, self._log.committed):
            return None
        if self.fault_in(offset, size):
            return None
        at = offset - segment.start
        view = segment.view[at : at + size]
        entry = next(walk(view, offset, 0, ScanEnd(), crc=False), None)
        if entry is None or not self._is_of(queue, number, entry):
            return None
        if check(view, 0, size, crc=True) <= 0:
            return self.damage.report(offset, offset + size, "a body does not have its checksum")
        unit = self._derive(queue, entry, data)
        if unit != data and isinstance(queue, BatchQueue) and not _fits(queue, number, unit):
            return self.damage.report(
                offset, offset + size, f"it is not between its neighbours in {queue.folder}"
            )
        return unit

    def _is_of(self, queue: ConsumeQueue, number: int, entry: DispatchEntry) -> bool:
        """Whether a record belongs to this queue and to unit `number`."""
        if entry.queue_id != queue.queue_id or entry.topic != queue.topic.encode():
            return False
        return isinstance(queue, BatchQueue) or entry.queue_offset == number

    def _derive(self, queue: ConsumeQueue, entry: DispatchEntry, data: bytes) -> bytes:
        """Return the unit for a record; `data` is the unit in the file."""
        tags = self._tags_code(entry, queue.topic)
        if isinstance(queue, BatchQueue):
            count = inner_count(entry.sys_flag, entry.properties)
            place = (entry.offset, entry.size, tags, entry.store_wall_ms)
            return BATCH_UNIT.pack(*place, entry.queue_offset, count, -1, 0)
        written = UNIT.unpack(data)[2]
        if queue.delay_ms is not None and (tags ^ written).bit_count() != 1:
            tags = written  # its level may have had another delay at that time
        return UNIT.pack(entry.offset, entry.size, tags)

    def _rebuilt(
        self,
        queue: ConsumeQueue,
        run: ConsumeQueue,
        number: int,
        data: bytes,
        unit: bytes | DamagedRange,
    ) -> bytes | DamagedRange:
        """Write `unit` over `data` in the file, if they differ; return the unit or the damage."""
        if isinstance(unit, DamagedRange) or unit == data:
            return unit
        self.damage.units_rebuilt += 1
        _log.warning(
            "%s: unit %d was damaged (%s); it was derived from the log again (%s)",
            run.folder,
            number,
            run.shape.unpack(data),
            run.shape.unpack(unit),
        )
        try:
            run.put_unit(number, unit)
        except EnvironmentFault as error:
            _log.warning("%s: unit %d cannot be written: %s", run.folder, number, error)
        return unit

    # Searching --------------------------------------------------------------------------------

    def _bounds(self, queue: ConsumeQueue, run: ConsumeQueue, number: int) -> tuple[int, int]:
        """Return the log offsets between which the record of unit `number` begins.

        Sound units on both sides of the unit give the bounds.
        """
        low, high = self._log.start, self._log.committed
        for other in range(number - 1, max(run.min, number - NEIGHBOURS_MAX) - 1, -1):
            if (place := self._place_of(queue, run, other)) is not None:
                low = max(low, sum(place))
                break
        for other in range(number + 1, min(run.next, number + NEIGHBOURS_MAX)):
            if (place := self._place_of(queue, run, other)) is not None:
                high = min(high, place[0])
                break
        return low, max(low, high)

    def _place_of(
        self, queue: ConsumeQueue, run: ConsumeQueue, number: int
    ) -> tuple[int, int] | None:
        """Return (log offset, size) of a unit whose record exists, judged by its head; else
        None.
        """
        unit = run.unit(number)
        if unit is None or unit[1] == PRE_BLANK_SIZE:
            return None
        segment = self._log.find(unit[0])
        if segment is None or not 0 < unit[1] <= segment.end - unit[0]:
            return None
        if self.fault_in(unit[0], unit[1]):
            return None
        at = unit[0] - segment.start
        view = segment.view[at : at + unit[1]]
        entry = next(walk(view, unit[0], 0, ScanEnd(), crc=False), None)
        good = entry is not None and entry.size == unit[1] and self._is_of(queue, number, entry)
        return unit[:2] if good else None

    def _search(
        self,
        queue: ConsumeQueue,
        run: ConsumeQueue,
        number: int,
        data: bytes,
        bounds: tuple[int, int],
    ) -> bytes | DamagedRange:
        search = UnitSearch(self._log, *bounds, partial(self._is_of, queue, number))
        for _ in range(SLICES_AT_ONCE):
            if search.over or not _step(search):
                return self._conclude(queue, run, number, data, search, bounds[0])
        if search.over:
            return self._conclude(queue, run, number, data, search, bounds[0])
        self._search_on(queue, run, number, data, search, bounds[0])
        return DamagedRange(
            *bounds, f"unit {number} of {run.folder} is damaged; it is looked for in the log"
        )

    def _search_on(
        self,
        queue: ConsumeQueue,
        run: ConsumeQueue,
        number: int,
        data: bytes,
        search: UnitSearch,
        low: int,
    ) -> None:
        """Continue the search outside the event loop, some slices per chore."""
        name = f"unit {number} of {run.folder}"
        if self._chores.busy(name):
            return

        def step() -> None:
            for _ in range(SLICES_AT_ONCE):
                if not search.over:
                    _step(search)

        def done(_error: EnvironmentFault | None) -> None:
            if run.units(number, 1) != data:
                return  # cut, deleted or rebuilt meanwhile
            if search.over:
                self._conclude(queue, run, number, data, search, low)
            else:
                self._search_on(queue, run, number, data, search, low)

        self._chores.add(name, [step], done)

    def _conclude(
        self,
        queue: ConsumeQueue,
        run: ConsumeQueue,
        number: int,
        data: bytes,
        search: UnitSearch,
        low: int,
    ) -> bytes | DamagedRange:
        """Use the result of a search for a unit's record: rebuild the unit, or report the
        damage.
        """
        offset, size, _ = run.shape.unpack(data)
        if search.found is not None:
            unit = self._unit_at(queue, number, search.found.offset, data)
            if unit is not None:
                return self._rebuilt(queue, run, number, data, unit)
            offset, size = search.found.offset, search.found.size
            return self.fault_in(offset, size) or self.damage.report(offset, offset + size, "?")
        if search.bad is not None:
            end = offset + size if offset == search.at and 0 < size < _FAR else search.at + 8
            return self.damage.report(search.at, end, search.bad)
        if low <= offset and 0 < size <= search.high - offset:
            return self.damage.report(
                offset, offset + size, f"it is not message {number} of {queue.folder}"
            )
        if run is not queue:
            return self.damage.report(low, low + 8, f"no record for unit {number} of {run.folder}")
        _log.error("%s: the log has no message %d; it is passed over", queue.folder, number)
        unit = UNIT.pack(low, PRE_BLANK_SIZE, 0)
        return self._rebuilt(queue, run, number, data, unit)


def _run(queue: ConsumeQueue) -> ConsumeQueue:
    """Return the queue whose units are numbered one by one."""
    return queue.run if isinstance(queue, BatchQueue) else queue


def _fits(queue: BatchQueue, position: int, unit: bytes) -> bool:
    """Whether a unit begins where the unit before it ends, and ends where the next one begins."""
    base, count = BATCH_UNIT.unpack(unit)[4:6]
    before = queue.at(position - 1) if position > queue.run.min else None
    after = queue.at(position + 1) if position + 1 < queue.run.next else None
    begins = base if before is None else before[4] + before[5]
    ends = queue.next if after is None else after[4]
    return (begins, ends) == (base, base + count)


def _size(run: ConsumeQueue, unit: bytes) -> int:
    size: int = run.shape.unpack_from(unit)[1]
    return 0 if size == PRE_BLANK_SIZE else size


def _step(search: UnitSearch) -> bool:
    """Search one slice; return False if the log cannot be read there."""
    try:
        search.step()
    except EnvironmentFault as error:
        search.bad = str(error)
    return search.bad is None
