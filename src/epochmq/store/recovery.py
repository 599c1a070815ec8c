"""Recovery at start: makes log, consume queues, index and checkpoint agree (INV-16, INV-17).

1. The log is read from a file up to which all derived files are complete. After a clean stop this
   is the file that the queues' last unit points into; after a crash it is the newest file that
   begins with a message older than the checkpoint's times.
2. `damage` distinguishes damage from a torn tail before anything is changed. A broker without
   replicas does not start with a damaged log; a replica cuts the log there and copies the rest
   again. The log ends at the first bad record; `log_end` cuts what is behind it.
3. Queue units at or beyond the start of reading are dropped and derived again. If a queue lacks
   older units, all queues are derived from the log's start. Queue offsets come from the whole log
   (rocketmq#7689).
4. Bytes that the checkpoint does not call synced are written again before the sync: after a failed
   sync the page cache may call them clean.
5. Index files that were not synced completely are deleted and derived again.
6. Messages of sinks are noted from the end of the sink memory's snapshot on (`sinks`).
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

from epochmq.model.record import check, store_time_at
from epochmq.store.batch_queue import inner_count
from epochmq.store.checkpoint import MARGIN_MS
from epochmq.store.consume_queue import ConsumeQueue
from epochmq.store.damage import Damage, DamageSearch, Expected, LogDamaged, expected_of
from epochmq.store.dispatch import LogDispatcher, QueueGap
from epochmq.store.draft import PRE_BLANK_SIZE
from epochmq.store.held_keys import Staged
from epochmq.store.log_end import CutTail, end_log, write_again
from epochmq.store.message_index import Index, forget_start
from epochmq.store.scan import DispatchEntry, ScanEnd, walk, walk_log
from epochmq.store.sinks import SinkMemory, load_snapshot
from epochmq.store.store_files import StoreFiles

_log = logging.getLogger(__name__)

ABORT = "abort"
_STAGED_MAX = 65_536
_NEVER = 1 << 63


@dataclass
class Recovered:
    """The result of recovery: what it found and did."""

    clean: bool
    end: int = 0
    last_wall_ms: int = 0
    records: int = 0
    """Number of records read; records in older files are not counted."""
    reason: str = "empty log"
    """Why the log ends at `end`."""
    cut: CutTail = field(default_factory=CutTail)
    damages: list[Damage] = field(default_factory=list)
    """Damaged ranges; the log was cut at the first one (replicas only)."""
    oddities: int = 0
    """Records with an impossible queue offset."""
    rebuilt: bool = False
    """Whether all queues were derived from the log's start."""
    lost_confirmed: int = 0
    """Bytes that the checkpoint calls confirmed and that are missing in the log (S10, S11)."""
    held: Staged = field(default_factory=list)
    """Keys of records that are not confirmed; they wait to be indexed."""


class Recovery:
    """Recovers one store; call `run` once."""

    def __init__(
        self,
        files: StoreFiles,
        sinks: SinkMemory,
        *,
        crc: bool = True,
    ) -> None:
        self._disk = files.disk
        self._options = files.options
        self._log = files.log
        self._queues = files.queues
        self._index = files.index
        self._checkpoint = files.checkpoint
        self._checksums = files.checksums
        self._sinks = sinks
        self._sinks_from = _NEVER
        """Messages of sinks are noted from this log offset on; older ones are in the snapshot."""
        self._crc = files.options.check_crc_on_recover and crc
        self._found = Recovered(not self._disk.exists(ABORT))
        self._expected = Expected(clean=True)
        self._sound_end = 0
        """Log offset where the search for damage found the log's end, or cuts it."""
        self._doubtful_from = _NEVER
        """Offset of the first record that the checkpoint does not call synced."""

    def run(self) -> Recovered:
        """Load all files and make them agree; return what was found.

        Raises `LogDamaged` for a damaged log without replicas, `StoreDamaged` for unusable files.
        """
        found = self._found
        self._log.load()
        self._checkpoint.load()
        if self._checkpoint.foreign:
            self._checksums.restart(0)  # another program may have written the log
        self._checksums.load()
        found.last_wall_ms = self._checkpoint.log_wall_ms
        self._queues.load()
        self._look_for_damage()
        if not self._log.segments:
            self._queues.reset_all()
            self._checksums.restart(0)  # they belong to a log whose files were removed
        keys_from = self._load_index()
        self._load_sinks()
        if not self._log.segments:
            return found
        try:
            units_from = self._units_from()
            self._derive(units_from, keys_from)
        except QueueGap:
            found.rebuilt = True
            units_from = self._log.start
            self._check_all()
            self._queues.reset_all()
            try:
                self._derive(units_from, keys_from)
            except QueueGap:  # the memory of sinks had to be restarted as well
                self._queues.reset_all()
                self._derive(units_from, keys_from)
        if found.end < self._sound_end:
            self._check_all()
        if units_from > found.end:
            self._cut_queues(found.end)  # the log lost bytes that the clean stop had recorded
        scanned = self._log.between(min(units_from, found.end), found.end)
        self._lower_claims()
        found.cut = end_log(self._disk, self._log, found.end, must_keep=bool(found.damages))
        if not found.clean:
            write_again(self._log, min(self._doubtful_from, found.end), found.end)
        for segment in scanned:
            segment.file.sync()
        self._repair_index()
        self._queues.prune()
        return found

    # Damage ---------------------------------------------------------------------------------

    def _look_for_damage(self) -> None:
        """Search for damage in the files that recovery reads; others are checked at their first
        read.
        """
        reach = max((queue.reach for queue in self._queues.all()), default=0)
        clean = self._found.clean
        self._expected = expected_of(
            self._checkpoint, self._checksums, reach, clean=clean, boot=self._checkpoint.boot
        )
        if not self._crc:
            self._sound_end = _NEVER
            return
        if not self._log.segments:
            start = 0
        elif clean:
            start = min(reach, self._log.segments[-1].start)
        else:
            start = self._begins_before(self._checkpoint.safe_wall_ms())
        self._search(start)

    def _check_all(self) -> None:
        """Search the whole log: an older file turned out to be damaged, or is to be read."""
        if self._crc and not self._found.damages:
            self._search(self._log.start)

    def _search(self, start: int) -> None:
        search = DamageSearch(
            self._log,
            self._queues,
            self._checksums,
            self._expected,
            anywhere=self._options.replicated,
        )
        damages = search.run(max(start, self._log.start))
        self._sound_end = search.end
        if not damages:
            return
        error = LogDamaged(damages)
        if not self._options.replicated:
            raise error
        _log.error("%s", error.ranges)
        found = self._found
        found.clean = False
        found.damages = damages
        self._sound_end = min(search.end, damages[0].start)

    def _lower_claims(self) -> None:
        """Lower the claims of checkpoint and checksums before the log is cut."""
        end = self._found.end
        mark = self._checkpoint.mark
        if mark is not None and mark.end > end:
            self._checkpoint.lower_end(end)
            self._checkpoint.write()
            self._checkpoint.sync()
        self._checksums.invalidate(end)

    # Where to begin -------------------------------------------------------------------------

    @property
    def _confirmed(self) -> int:
        """The confirm offset; under replication, keys of records beyond it wait (`held_keys`)."""
        return self._checkpoint.confirmed if self._options.replicated else _NEVER - 1

    def _load_index(self) -> int | None:
        """Open the index; return the log offset from which keys are missing, None if none are."""
        if self._index is None:
            forget_start(self._disk)
            return None
        keys_from = self._keys_from(self._index)
        first = self._index.next_from if keys_from is None else keys_from
        self._index.trust_from(first, foreign=self._checkpoint.foreign)
        return keys_from

    def _keys_from(self, index: Index) -> int | None:
        wall = self._checkpoint.index_wall_ms
        rebuild = index.load(clean=self._found.clean, synced_wall_ms=wall)
        if index.stale:
            self._forget_index_claim()
            index.remove_stale()
        index.forget_checksums()
        if not self._log.segments:
            return rebuild
        if self._found.clean:
            return index.next_from if rebuild is None else rebuild
        complete = max(self._begins_before(wall - MARGIN_MS), index.next_from)
        return complete if rebuild is None else min(rebuild, complete)

    def _forget_index_claim(self) -> None:
        """Remove the checkpoint's claim about the index, durably, before index files are
        deleted.
        """
        self._checkpoint.forget_index()
        self._checkpoint.write()
        self._checkpoint.sync()

    def _load_sinks(self) -> None:
        """Load the snapshot of the sink memory; without one, only what is read anyway is noted."""
        sinks = self._sinks
        problem = load_snapshot(self._disk, sinks)
        if problem:
            _log.error("the memory of sinks is read from the log again: %s", problem)
        if not self._log.segments:
            sinks.restart(0)
        elif not sinks.missing:
            self._sinks_from = max(self._log.start, sinks.covered)

    def _units_from(self) -> int:
        """Return the log offset from which units are derived again; older units are complete."""
        if self._found.clean:
            for queue in self._queues.all():
                self._check_last_unit(queue)
            return max(self._log.start, *(queue.reach for queue in self._queues.all()), 0)
        units_from = self._begins_before(self._checkpoint.safe_wall_ms())
        self._cut_queues(units_from)
        return units_from

    def _begins_before(self, wall: int) -> int:
        """Return the start of the newest file that begins with a message stored up to `wall`
        (ms).
        """
        for segment in reversed(self._log.segments):
            if check(segment.view, 0, len(segment.view), crc=False) > 0:
                first = store_time_at(segment.view, 0)
                if 0 < first <= wall:
                    return segment.start
        return self._log.start

    def _cut_queues(self, log_offset: int) -> None:
        """Drop units at or beyond `log_offset`; a queue without units keeps its next offset."""
        for queue in self._queues.all():
            queue.cut(log_offset)
            last = queue.unit(queue.next - 1) if queue.next > queue.min else None
            if last is None or last[1] == PRE_BLANK_SIZE:
                self._queues.reset(queue, queue.next)
            elif not self._belongs(
                queue.topic, queue.queue_id, queue.base_of(queue.next - 1), last[0]
            ):
                raise QueueGap
            else:
                queue.clear_behind()

    def _check_last_unit(self, queue: ConsumeQueue) -> None:
        """Raise `QueueGap` if the queue's last unit does not match its record after a clean stop.

        The last unit determines the queue's next offset, and up to where the log was dispatched.
        """
        found = queue.last_unit()
        if found is None or found[2] == PRE_BLANK_SIZE:
            return
        if not self._belongs(queue.topic, queue.queue_id, *found):
            _log.warning(
                "%s: the last unit is damaged; all queues are derived from the log again",
                queue.folder,
            )
            raise QueueGap

    def _belongs(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        offset: int,
        size: int | None = None,
        messages: int | None = None,
    ) -> bool:
        """Whether the record at `offset` in the log matches the unit."""
        segment = self._log.find(offset)
        if segment is None:
            return 0 <= offset < self._log.start
        at = offset - segment.start
        entry = next(walk(segment.view, segment.start, at, ScanEnd(), crc=False), None)
        return entry is not None and (
            (entry.topic, entry.queue_id, entry.queue_offset)
            == (topic.encode(), queue_id, queue_offset)
            and size in (None, entry.size)
            and messages in (None, inner_count(entry.sys_flag, entry.properties))
        )

    # Reading --------------------------------------------------------------------------------

    def _derive(self, units_from: int, keys_from: int | None) -> None:
        """Read the log to its end; derive units and keys from where they are missing."""
        found = self._found
        dispatcher = LogDispatcher(
            self._queues,
            self._options.delays_ms,
            from_start=units_from <= self._log.start,
            index=self._index is not None,
            sinks=self._sinks,
        )
        if self._index is not None and keys_from is not None:
            # An earlier, abandoned run may have added some keys.
            keys_from = max(keys_from, self._index.next_from)
        keys_from = _NEVER if keys_from is None else keys_from
        derive_from = min(units_from, keys_from, self._sinks_from)
        end = ScanEnd()
        entry = None
        found.records = 0
        bound = self._confirmed
        synced_wall = self._checkpoint.log_wall_ms - MARGIN_MS
        self._doubtful_from = _NEVER
        for entry in self._read(derive_from, end):
            offset = entry.offset
            if offset >= self._sound_end and found.damages:
                end.set(offset, False, found.damages[0].reason)
                break
            found.records += 1
            if entry.store_wall_ms > synced_wall:
                self._doubtful_from = min(self._doubtful_from, offset)
            if offset >= derive_from:
                if offset + entry.size > bound:
                    self._stage(dispatcher)
                    bound = _NEVER
                dispatcher.add(entry, unit=offset >= units_from, keys=offset >= keys_from)
                if len(dispatcher.staged) >= _STAGED_MAX:
                    self._stage(dispatcher)
                if not found.records % _STAGED_MAX:
                    self._sinks.forget_confirmed(min(offset, self._confirmed))
        if self._sinks.covered > end.offset:
            self._sinks.restart(self._log.start)  # the log lost messages that the snapshot contains
            raise QueueGap
        if entry is not None:
            found.last_wall_ms = entry.store_wall_ms
        self._finish_keys(dispatcher, bound)
        found.end, found.reason = end.offset, end.reason
        found.oddities = dispatcher.oddities

    def _read(self, offset: int, end: ScanEnd) -> Iterator[DispatchEntry]:
        """Yield all records from the start of the file of `offset`, at the latest of the last
        file.
        """
        log = self._log
        first = log.find(min(offset, log.segments[-1].start)) or log.segments[0]
        return walk_log(
            log.segments[log.segments.index(first) :],
            end,
            crc=self._crc,
            safe_wall=None if self._found.clean else self._checkpoint.safe_wall_ms(),
            safe_end=self._expected.synced,
            anywhere=self._options.replicated,
        )

    def _finish_keys(self, dispatcher: LogDispatcher, bound: int) -> None:
        """Index the staged keys, or hold them if their records are not confirmed."""
        if bound == _NEVER:
            self._found.held = dispatcher.staged
        else:
            self._stage(dispatcher)

    def _stage(self, dispatcher: LogDispatcher) -> None:
        if self._index is not None and dispatcher.staged:
            self._index.add(dispatcher.staged)
            self._index.write_items()
            dispatcher.staged = []

    def _repair_index(self) -> None:
        """Derive the index files again that contain messages beyond the log's end."""
        index, end = self._index, self._found.end
        if index is None or not index.reaches(end):
            return
        self._forget_index_claim()
        rebuild = index.cut(end)
        assert rebuild is not None
        dispatcher = LogDispatcher(
            self._queues, self._options.delays_ms, from_start=False, index=True
        )
        bound = self._confirmed
        for entry in self._read(rebuild, ScanEnd()):
            if entry.offset + entry.size > bound:
                self._stage(dispatcher)
                bound = _NEVER
            dispatcher.add(entry, unit=False, keys=entry.offset >= rebuild)
            if len(dispatcher.staged) >= _STAGED_MAX:
                self._stage(dispatcher)
        self._finish_keys(dispatcher, bound)
