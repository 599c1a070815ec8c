"""Retention: decides which log files are deleted, by age at a set hour, by disk use at any hour.

The oldest log file is deleted first; the file being written, and files that are not synced and
readable, are kept. Queue and index files are deleted after the log files.
"""

from datetime import datetime

from epochmq.store.consume_queue import ConsumeQueue
from epochmq.store.log_end import CUT_FOLDER
from epochmq.store.options import StoreOptions
from epochmq.store.pointers import Pointers
from epochmq.store.store_files import StoreFiles

_HOUR_MS = 3_600_000


class Retention:
    """Deletes expired files, and old files if the disk is full; the store calls it in slices."""

    def __init__(
        self,
        files: StoreFiles,
        pointers: Pointers,
    ) -> None:
        self._disk = files.disk
        self._options = files.options
        self._log = files.log
        self._queues = files.queues
        self._index = files.index
        self._pointers = pointers
        self._to_clean: list[ConsumeQueue] = []
        self.deleted_files = 0
        self.by_hand = False
        """Set by an administrator: the next check deletes expired files at any hour."""

    def adopt(self, options: StoreOptions) -> None:
        """Use other retention options from the next check on."""
        self._options = options

    def used_ratio(self) -> float:
        """Return the used share (0 to 1) of the file system under the store."""
        total, free = self._disk.usage()
        return 1 - free / total if total else 0.0

    def delete_expired(self, wall: int) -> int:
        """Delete up to one batch of expired log files; return how many were deleted."""
        options = self._options
        used = self.used_ratio()
        hour = datetime.fromtimestamp(wall / 1000).hour
        forced = used > options.disk_forcibly_ratio
        due = self.by_hand or hour in options.delete_when or used > options.disk_used_ratio
        self.by_hand = False
        if not due and not forced:
            return 0
        limit = wall - options.reserved_hours * _HOUR_MS
        gone = 0
        while gone < options.delete_batch and self._may_go(limit, forced):
            segment = self._log.segments.pop(0)
            self._pointers.start = self._log.start
            self._log.remove(segment)
            gone += 1
        if gone:
            self.deleted_files += gone
            self._to_clean = self._queues.all()
        self._delete_cuts(limit)
        return gone

    def _delete_cuts(self, limit: int) -> None:
        """Delete copies of cut bytes (`cut/`) after the same time as log files."""
        for name in self._disk.list(CUT_FOLDER):
            path = f"{CUT_FOLDER}/{name}"
            if self._disk.modified_wall_ms(path) < limit:
                self._disk.remove(path)

    def _may_go(self, limit: int, forced: bool) -> bool:
        if len(self._log.segments) < 2:
            return False
        oldest = self._log.segments[0]
        pointers = self._pointers
        if oldest.end > min(pointers.synced, pointers.readable):
            return False
        return forced or self._disk.modified_wall_ms(oldest.path) < limit

    def clean_index(self) -> None:
        """Delete index files below the log's start; not while one of them is being synced."""
        if self._index is not None:
            self._index.expire(self._pointers.start)

    def clean_queues(self, count: int) -> bool:
        """Delete queue files below the log's start, of `count` queues; return whether more
        remain.
        """
        while self._to_clean and count > 0:
            self._clean(self._to_clean.pop())
            count -= 1
        return bool(self._to_clean)

    def _clean(self, queue: ConsumeQueue) -> None:
        names = [name for name in self._disk.list(queue.folder) if name.isdecimal()]
        for name in names[:-1]:
            unit = queue.last_in_file(int(name))
            if unit is None or unit[0] >= self._pointers.start:
                return
            path = f"{queue.folder}/{name}"
            queue.set_floor(self._pointers.start)
            self._queues.files.forget(path)
            self._disk.remove(path)
