"""Truncation: cuts the log of a running store so that no crash restores cut bytes (rocketmq#10666).

1. The bytes are copied to `cut/<epoch>-<offset>.log` and synced.
2. The checkpoint's times are lowered below every file that loses bytes, and synced: from now on a
   recovery reads from before the cut. Checksums of cut bytes are invalidated and synced.
3. The log is cut (`log_end.LogCut`): after its first sync every recovery ends there.
4. Queues, keys, sync points and pointers are cut in memory and in files, a few queues in each turn
   of the event loop. If a crash leaves entries behind the cut, recovery drops them, since it
   derives everything again from before the cut.

The caller cuts the epoch file afterwards: entries behind the log's end are dropped at open.
After a crash at any point the log is whole or cut; repeating the cut does no harm (INV-13, 15, 16).

Everything that waits for the device is a step that may run outside the event loop: one for the
copy, one for the log, and some that remove files of queues and of the index. Meanwhile the store is
held: nothing is appended, and no sync and no chore begins. Before the second step the cut messages
become invisible to readers. If the copy fails, nothing has changed. If the log's files are cut only
in part, the store is fenced, and the next start completes the cut.
"""

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial

from epochmq.base.errors import DiskFailed, EnvironmentFault
from epochmq.base.safeguards import Safeguards
from epochmq.model import properties as props
from epochmq.model.property_names import UNIQ_KEY
from epochmq.model.record import check, store_time_at
from epochmq.store.append import Appender
from epochmq.store.chores import Step, Steps
from epochmq.store.dispatch import LogDispatcher
from epochmq.store.epochs import EpochEntry
from epochmq.store.flush import Flusher
from epochmq.store.held_keys import cut_rows
from epochmq.store.housekeeping import Housekeeping
from epochmq.store.log_end import CutTail, LogCut, keep
from epochmq.store.pointers import Pointers
from epochmq.store.scan import DispatchEntry, ScanEnd, walk, walk_log
from epochmq.store.segment import Segment
from epochmq.store.store_files import StoreFiles
from epochmq.store.visibility import Visibility

_log = logging.getLogger(__name__)
_UNIQ_KEY = UNIQ_KEY.encode()
QUEUES_A_TURN = 16
"""Queues whose files are cut before the event loop runs again."""

Part = tuple[Segment, memoryview]
"""A file that loses bytes, and its mapping."""


class Truncation:
    """Cuts the log and every part that depends on the log's end."""

    def __init__(
        self,
        files: StoreFiles,
        pointers: Pointers,
        appender: Appender,
        flusher: Flusher,
        housekeeping: Housekeeping,
        visibility: Visibility,
        safeguards: Safeguards,
    ) -> None:
        self._disk = files.disk
        self._options = files.options
        self._log = files.log
        self._queues = files.queues
        self._index = files.index
        self._checkpoint = files.checkpoint
        self._checksums = files.checksums
        self._pointers = pointers
        self._appender = appender
        self._flusher = flusher
        self._housekeeping = housekeeping
        self._visibility = visibility
        self._durable = safeguards.durable_truncation_first
        self._touched: dict[tuple[str, int], None] | None = None
        """Queues with units behind the cut; None: any queue may have such units."""
        self._read_to = 0
        self._first_wall: int | None = None
        """Store time (ms) of the first record that is cut."""
        self._last = (-1, "")
        """Offset and reason of the last cut: a repeated cut is not logged as a warning again."""
        self.bytes = 0
        self.confirmed_bytes = 0
        """Number of cut bytes that had been confirmed; an unclean election lost them."""
        self.count = 0

    def begins_record(self, offset: int) -> bool:
        """Whether a record, blank or file begins at `offset`; a message body may look like a
        record.
        """
        with suppress(EnvironmentFault):
            self._log.commit()
        segment = self._log.find(offset)
        if segment is None or offset == segment.start or offset > self._log.committed:
            return True
        end = ScanEnd()
        at = offset - segment.start
        return next(walk(segment.view, segment.start, at, end, crc=False), None) is not None or (
            end.reason == "blank"
        )

    def steps(
        self,
        end: int,
        reason: str,
        epochs: Sequence[EpochEntry],
        whole_end: int,
        hide: Callable[[int], None],
    ) -> Generator[Step, None, CutTail]:
        """Cut the log and all derived files to `end`, the start of a record; yield blocking steps.

        Returns the cut. Below `whole_end` the log consists of records. `hide` hides cut messages
        from readers. The caller lets nothing else use the log until the last step is done.
        """
        known = self._commit_pending(end)
        log_end = self._log.end
        parts = [(segment, segment.view) for segment in self._log.between(end, log_end)]
        cut = CutTail(end, log_end - end, reason)
        cut.below_confirmed = max(0, self._pointers.confirmed - end)
        cut.epochs = tuple(e.epoch for e in epochs if e.start < log_end and e.end > end)
        yield partial(self._describe_and_save, parts, log_end, epochs, cut)
        if not known or self._read_to < min(whole_end, log_end):
            self._touched = None
        if self._first_wall is not None:
            self._appender.last_wall = min(self._appender.last_wall, self._first_wall)
        hide(end)
        self._housekeeping.forget_claims()
        self._flusher.void(end)
        if self._durable:
            self._lower_checkpoint(end)
        yield from self._cut_files(end)
        self._checksums.read_again(end)
        yield from self._follow(end)
        self.bytes += cut.size
        self.confirmed_bytes += cut.below_confirmed
        self.count += 1
        again, self._last = self._last == (end, reason), (end, reason)
        _log.log(logging.DEBUG if again else logging.WARNING, "the log was cut: %s", cut)
        return cut

    def _cut_files(self, end: int) -> Steps:
        """Do steps 2 and 3 on the device."""
        take_back = self._checksums.invalidate_step(end)
        if not self._durable:
            later = self._log.behind(end)

            def unsafe() -> None:
                take_back()
                self._log.delete(later)

            yield unsafe
            self._log.forget(end)
            return
        cut_log = LogCut(self._log, end)

        def step() -> None:
            self._checkpoint.sync()
            take_back()
            cut_log()

        try:
            yield step
        except EnvironmentFault as error:
            if cut_log.begun:
                raise DiskFailed(f"the log was cut to {end} in part: {error}") from error
            raise
        self._log.forget(end)

    def _commit_pending(self, end: int) -> bool:
        """Write the transient pool so that its bytes are kept too; return False if that fails."""
        log = self._log
        try:
            log.commit()
        except EnvironmentFault:
            committed = log.committed
            if log.pending:
                del log.pending[max(0, end - committed) :]
            log.end = max(end, committed)
            return False
        return True

    # Step 1 -----------------------------------------------------------------------------------

    def _describe_and_save(
        self, parts: list[Part], log_end: int, epochs: Sequence[EpochEntry], cut: CutTail
    ) -> None:
        """Describe the cut records and copy the bytes, outside the event loop; the log is
        unchanged.
        """
        self._describe(parts, log_end, cut)
        if self._durable:
            self._save(parts, log_end, epochs, cut)

    def _describe(self, parts: list[Part], log_end: int, cut: CutTail) -> None:
        """Count the cut records, as far as they can be read."""
        touched: dict[tuple[str, int], None] = {}
        self._read_to = cut.offset
        self._first_wall = None
        for entry in self._entries(parts, cut.offset, log_end):
            if cut.count == 0:
                cut.first_id = _id_of(entry)
                self._first_wall = entry.store_wall_ms
            cut.count += 1
            cut.last_id = _id_of(entry)
            touched[entry.topic.decode("utf-8", "replace"), entry.queue_id] = None
        self._touched = touched

    def _entries(self, parts: list[Part], start: int, log_end: int) -> Iterator[DispatchEntry]:
        for segment, view in parts:
            limit = min(segment.end, log_end) - segment.start
            at = max(start - segment.start, 0)
            stop = ScanEnd()
            yield from walk(view[:limit], segment.start, at, stop, crc=False)
            if stop.offset < segment.start + limit and not stop.rolled:
                self._read_to = stop.offset
                return
            self._read_to = segment.start + limit

    def _save(
        self, parts: list[Part], log_end: int, epochs: Sequence[EpochEntry], cut: CutTail
    ) -> None:
        """Copy all bytes that are cut; raise `DiskFull`, before anything is cut, if space is
        short.
        """
        for segment, _ in parts:
            at = max(cut.offset, segment.start)
            size = min(segment.end, log_end) - at
            epoch = next((e.epoch for e in reversed(epochs) if e.start <= at), 0)
            cut.kept.append(keep(self._disk, segment, at - segment.start, size, f"{epoch}-{at}"))

    # Step 2 -----------------------------------------------------------------------------------

    def _lower_checkpoint(self, end: int) -> None:
        """Lower the checkpoint's times, so that recovery starts at a file before the cut.

        The checkpoint is written here; the next step syncs it.
        """
        for segment in self._log.segments:
            if segment.end > end and check(segment.view, 0, len(segment.view), crc=False) > 0:
                self._checkpoint.clock_back(max(store_time_at(segment.view, 0), 0))
        self._checkpoint.confirmed = min(self._checkpoint.confirmed, self._pointers.confirmed, end)
        self._checkpoint.lower_end(end)
        self._checkpoint.write()

    # Step 4 -----------------------------------------------------------------------------------

    def _follow(self, end: int) -> Steps:
        """Remove everything derived from bytes behind `end`."""
        queues = self._queues
        if self._touched is None:
            touched = queues.all()
        else:
            found = (queues.find(*name) for name in self._touched)
            touched = [queue for queue in found if queue is not None]
        for first in range(0, len(touched), QUEUES_A_TURN):
            later: list[str] = []
            for queue in touched[first : first + QUEUES_A_TURN]:
                later += queue.truncate(end)
            yield partial(self._remove, later)
        queues.prune()
        self._housekeeping.forget_claims()
        cut_rows(self._appender.staged, end)
        yield from self._cut_index(end)
        self._flusher.cut(end)
        pointers = self._pointers
        pointers.appended = end
        pointers.synced = min(pointers.synced, end)
        pointers.confirmed = min(pointers.confirmed, end)
        pointers.dispatched = min(pointers.dispatched, end)
        self._visibility.cut(end)

    def _remove(self, paths: list[str]) -> None:
        """Remove files of queues; without any, the event loop has had a turn."""
        for path in paths:
            self._disk.remove(path)

    def _cut_index(self, end: int) -> Steps:
        """Remove index files with cut keys, and stage the other keys of these files again."""
        if self._index is None:
            return
        rebuild, paths = self._index.drop_files(end)
        if rebuild is None:
            return
        dispatcher = LogDispatcher(
            self._queues, self._options.delays_ms, from_start=True, index=True
        )
        yield partial(self._index.delete, paths)
        yield partial(self._read_keys, dispatcher, rebuild, end)
        self._appender.staged[:0] = dispatcher.staged

    def _read_keys(self, dispatcher: LogDispatcher, start: int, end: int) -> None:
        """Stage in `dispatcher` the keys of the records from `start` to `end`."""
        first = self._log.find(start)
        segments = self._log.segments
        later = segments if first is None else segments[segments.index(first) :]
        for entry in walk_log(later, ScanEnd(), crc=False):
            if entry.offset >= end:
                break
            dispatcher.add(entry, unit=False, keys=entry.offset >= start)


def _id_of(entry: DispatchEntry) -> str:
    """Return the message id that the producer created, else the log offset."""
    unique = props.find(entry.properties, _UNIQ_KEY)
    return unique.decode("utf-8", "replace") if unique else f"@{entry.offset}"
