"""Verifies a store: scans the log, derives queues and index again, and compares them (INV-17).

Reads only. `Store.verify` checks a live store, `verify_directory` a stopped one, for the command
`epochmq store verify`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from epochmq.base.errors import StoreDamaged
from epochmq.base.ports import Disk
from epochmq.model.sys_flag import TX_MASK, TX_PREPARED, TX_ROLLBACK
from epochmq.store.batch_queue import BatchQueue, inner_count
from epochmq.store.checkpoint import FILE, Checkpoint, stored_confirm
from epochmq.store.checksums import BlockChecksums
from epochmq.store.commit_log import CommitLog
from epochmq.store.consume_queue import ConsumeQueue
from epochmq.store.damage import DamageSearch, expected_of
from epochmq.store.dispatch import HOLE_UNITS_MAX, LogDispatcher, index_keys
from epochmq.store.draft import BATCH_UNIT, PRE_BLANK_SIZE, UNIT, UNIT_BYTES
from epochmq.store.message_index import Index
from epochmq.store.options import StoreOptions
from epochmq.store.queue_table import QueueTable, QueueTypes, unknown_type
from epochmq.store.recovery import ABORT
from epochmq.store.scan import DispatchEntry, ScanEnd, walk_log

PROBLEMS_MAX = 100
_UNITS_A_READ = 4096

Progress = Callable[[int, int], None]
"""Told (bytes done, bytes in all) of the log."""


@dataclass
class Verified:
    """The result of a check; the store is sound if `problems` is empty."""

    records: int = 0
    log_start: int = 0
    log_end: int = 0
    end_reason: str = ""
    queues: int = 0
    units: int = 0
    holes: int = 0
    """Queue offsets without a record, as rocketmq#6570 left them in stores written by 5.0."""
    index_items: int = 0
    clean_stop: bool = True
    log_damaged: bool = False
    problems: list[str] = field(default_factory=list)

    def report(self, text: str) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(text)


@dataclass
class _Expected:
    """The units of one queue that the log implies, from `first` on."""

    first: int
    batched: bool
    units: bytearray = field(default_factory=bytearray)
    next: int = 0
    """The queue offset behind the last unit."""

    def __post_init__(self) -> None:
        self.next = self.first

    @property
    def unit_bytes(self) -> int:
        return BATCH_UNIT.size if self.batched else UNIT_BYTES

    def skip(self, hole: int, offset: int) -> None:
        """Add a hole of queue offsets without a record before the record at `offset`."""
        if not self.batched:
            self.units += UNIT.pack(offset, PRE_BLANK_SIZE, 0) * hole
        self.next += hole

    def add(self, entry: DispatchEntry, tags_code: int) -> None:
        count = 1
        if self.batched:
            count = inner_count(entry.sys_flag, entry.properties)
            place = (entry.offset, entry.size, tags_code, entry.store_wall_ms)
            self.units += BATCH_UNIT.pack(*place, self.next, count, -1, 0)
        else:
            self.units += UNIT.pack(entry.offset, entry.size, tags_code)
        self.next += count


class Verifier:
    """One check; it changes nothing."""

    def __init__(
        self, log: CommitLog, queues: QueueTable, index: Index | None, options: StoreOptions
    ) -> None:
        self._log = log
        self._queues = queues
        self._index = index
        self._dispatcher = LogDispatcher(queues, options.delays_ms, from_start=True, index=False)
        self._expected: dict[tuple[str, int], _Expected] = {}
        self._keys: list[tuple[int, str, str]] = []
        self._rolled_back: list[tuple[int, int]] = []
        """Records without keys, the fillers of a repair among them: keys may lead there still."""
        self._index_stop = 1 << 63
        """Keys of records from here on may or may not be indexed: they are not readable yet."""
        self.found = Verified()

    def run(
        self,
        end: int | None = None,
        progress: Progress | None = None,
        index_end: int | None = None,
    ) -> Verified:
        """Check up to `end`, or up to the log's first bad record; the index up to `index_end`."""
        found = self.found
        log = self._log
        found.log_start = log.start
        index_from = self._index_start()
        for entry in self._entries(end):
            found.records += 1
            self._expect(entry)
            if index_end is not None and entry.offset + entry.size > index_end:
                index_from, index_end = None, None
                self._index_stop = entry.offset
            if index_from is not None and entry.offset >= index_from:
                self._expect_keys(entry)
            if progress is not None and found.records % 4096 == 0:
                progress(entry.offset - log.start, log.end - log.start)
        if end is not None and found.log_end < end:
            found.report(f"the log ends at {found.log_end}, not at {end}: {found.end_reason}")
        if not found.log_damaged:  # else all that is derived from the log differs, too
            self._compare_queues()
            self._compare_index()
        return found

    def _entries(self, end: int | None) -> Iterator[DispatchEntry]:
        if not self._log.segments:
            return
        found = self.found
        stop = ScanEnd()
        for entry in walk_log(self._log.segments, stop):
            if end is not None and entry.offset >= end:
                stop.set(entry.offset, False, "end")
                break
            yield entry
        found.log_end, found.end_reason = stop.offset, stop.reason

    def _expect(self, entry: DispatchEntry) -> None:
        if entry.sys_flag & TX_MASK == TX_ROLLBACK:
            self._rolled_back.append((entry.offset, entry.offset + entry.size))
        if entry.sys_flag & TX_MASK in (TX_PREPARED, TX_ROLLBACK):
            return
        topic = entry.topic.decode("utf-8", "replace")
        name = (topic, entry.queue_id)
        queue = self._expected.get(name)
        if queue is None or (entry.queue_offset == 0 and queue.next > 0):
            batched = self._queues.is_batched(topic)
            queue = self._expected[name] = _Expected(entry.queue_offset, batched)
        hole = entry.queue_offset - queue.next
        if 0 < hole <= HOLE_UNITS_MAX:
            self.found.holes += hole
            queue.skip(hole, entry.offset)
        elif hole:
            self.found.report(
                f"{topic}/{entry.queue_id}: record at {entry.offset} has queue offset"
                f" {entry.queue_offset}, expected {queue.next} (INV-17)"
            )
            return
        queue.add(entry, self._dispatcher.tags_code(entry, topic))

    def _compare_queues(self) -> None:
        found = self.found
        for (topic, queue_id), expected in sorted(self._expected.items()):
            queue = self._queues.find(topic, queue_id)
            if queue is None:
                continue  # the topic was deleted; its records stay until the log expires
            found.queues += 1
            found.units += len(expected.units) // expected.unit_bytes
            if queue.next != expected.next and not _ends_in_holes(queue, expected.next):
                found.report(
                    f"{topic}/{queue_id}: ends at {queue.next}, the log says {expected.next}"
                )
            else:
                self._compare_units(queue, expected)
        for queue in self._queues.all():
            if (queue.topic, queue.queue_id) not in self._expected and queue.next > queue.min:
                last = queue.unit(queue.next - 1)
                if last is not None and last[0] >= self._log.start and last[1] != PRE_BLANK_SIZE:
                    found.report(f"{queue.topic}/{queue.queue_id}: the log has no record of it")

    def _compare_units(self, queue: ConsumeQueue, expected: _Expected) -> None:
        run, first = queue, expected.first
        if isinstance(queue, BatchQueue):
            run, first = queue.run, queue.position(first)
        size = expected.unit_bytes
        for low in range(0, len(expected.units), _UNITS_A_READ * size):
            want = expected.units[low : low + _UNITS_A_READ * size]
            have = run.units(first + low // size, len(want) // size)
            if have != want:
                same = next(
                    (i for i, (a, b) in enumerate(zip(have, want, strict=False)) if a != b), 0
                )
                self.found.report(
                    f"{queue.topic}/{queue.queue_id}: unit {first + (low + same) // size} differs"
                    " from its record"
                )
                return

    def _index_start(self) -> int | None:
        files = self._index.files if self._index is not None else []
        return files[0].first_offset if files and files[0].count > 1 else None

    def _expect_keys(self, entry: DispatchEntry) -> None:
        if entry.sys_flag & TX_MASK != TX_ROLLBACK:
            topic = entry.topic.decode("utf-8", "replace")
            self._keys += [(entry.offset, topic, key) for key in index_keys(entry.properties)]

    def _compare_index(self) -> None:
        if self._index is None:
            return
        if self._index.stale:
            path = self._index.stale[0].path
            self.found.report(
                f"index: {path} is damaged; the next start builds it again from the log"
            )
            return
        # A Java broker indexes the last message of a file once more after its own crash.
        have = list(dict.fromkeys(self._index.items()))
        self.found.index_items = len(have)
        hashed = ((at, self._index.hash_of(topic, key)) for at, topic, key in self._keys)
        want = list(dict.fromkeys(hashed))
        kept = [
            item
            for item in have
            if self._log.start <= item[0] < self._index_stop
            and not any(low <= item[0] < high for low, high in self._rolled_back)
        ]
        if kept != want:
            wrong = next(
                (i for i, (a, b) in enumerate(zip(kept, want, strict=False)) if a != b),
                min(len(kept), len(want)),
            )
            self.found.report(
                f"index: {len(kept)} items, the log gives {len(want)}; they differ from item"
                f" {wrong} on; delete the directory index to have it made again"
            )


def _ends_in_holes(queue: ConsumeQueue, low: int) -> bool:
    """Whether all units from `low` on are holes: a repair gave these messages up."""
    if isinstance(queue, BatchQueue) or queue.next < low:
        return False
    units = UNIT.iter_unpack(queue.units(low, queue.next - low))
    return all(size == PRE_BLANK_SIZE for _at, size, _tags in units)


def _look_for_damage(
    disk: Disk, log: CommitLog, queues: QueueTable, options: StoreOptions, found: Verified
) -> None:
    """Compare the log with its checksums and with the claims of the last stop."""
    checkpoint, checksums = Checkpoint(disk), BlockChecksums(disk, log)
    if disk.exists(FILE) and disk.size(FILE):
        checkpoint.load()
    try:
        checksums.usable = not checkpoint.foreign
        checksums.find_covered()
        reach = max((queue.reach for queue in queues.all()), default=0)
        clean = not disk.exists(ABORT)
        expected = expected_of(checkpoint, checksums, reach, clean=clean, boot="")
        search = DamageSearch(log, queues, checksums, expected, anywhere=options.replicated)
        for damage in search.run(log.start):
            found.log_damaged = True
            found.report(f"the log is damaged: {damage}; see epochmq store repair")
    finally:
        checkpoint.close()
        checksums.close()


def verify_directory(
    disk: Disk,
    options: StoreOptions,
    progress: Progress | None = None,
    types: QueueTypes = unknown_type,
) -> Verified:
    """Check a stopped store; holds its lock meanwhile."""
    lock = disk.lock("lock")
    log = CommitLog(disk, options)
    queues = QueueTable(disk, options, types)
    index = Index(disk, options) if options.index else None
    verifier = Verifier(log, queues, index, options)
    try:
        log.load()
        queues.load()
        if index is not None:
            index.load(clean=True, synced_wall_ms=0)
        _look_for_damage(disk, log, queues, options, verifier.found)
        found = verifier.run(None, progress, stored_confirm(disk) or None)
        found.clean_stop = not disk.exists(ABORT)
        if not found.clean_stop:
            found.problems.insert(
                0, "the store was not stopped cleanly: start it once, it recovers by itself"
            )
    except StoreDamaged as error:
        found = verifier.found
        found.report(str(error))
    finally:
        log.close()
        queues.files.close()
        if index is not None:
            index.close()
        lock.release()
    return found
