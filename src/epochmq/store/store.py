"""The message store of a broker: commit log, consume queues, index; no role, no network."""

import logging
import os
from collections.abc import Callable, Collection, Sequence

from epochmq.base.errors import DiskFull, EnvironmentFault
from epochmq.base.ports import Disk, Lock
from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.store.append import Appender, IsNew, Result, unsure
from epochmq.store.chores import Chores
from epochmq.store.consume_queue import ConsumeQueue
from epochmq.store.draft import Appended, Draft, PutStatus
from epochmq.store.flush import Flusher
from epochmq.store.follow import Follower
from epochmq.store.gate import Gate
from epochmq.store.housekeeping import Every, Housekeeping
from epochmq.store.key_query import KeyQueries, query_index
from epochmq.store.message_index import FOLDER as INDEX_FOLDER
from epochmq.store.message_index import IndexResult
from epochmq.store.native_batch import CheckedBatch, Placed
from epochmq.store.native_messages import NativeMessages
from epochmq.store.native_send import SendRun
from epochmq.store.options import StoreOptions
from epochmq.store.pointers import Pointers
from epochmq.store.queue_table import QueueTypes, unknown_type
from epochmq.store.read import Reader
from epochmq.store.read_check import ReadCheck
from epochmq.store.recovery import ABORT, Recovered, Recovery
from epochmq.store.replicated import RawLogReader, ReplicaLog
from epochmq.store.retention import Retention
from epochmq.store.scrub import Scrub
from epochmq.store.sinks import SinkMemory
from epochmq.store.store_files import StoreFiles, check_restored
from epochmq.store.truncation import Truncation
from epochmq.store.verify import Verified, Verifier
from epochmq.store.visibility import Arrivals, ReadLimit, Visibility

_log = logging.getLogger(__name__)

LOCK = "lock"
_STAGED_MAX = 1024
_PAGE = 4096
SIZES_INTERVAL_MS = 1000
"""How often the sizes of the commit log files are checked for changes made by others."""


class Store:
    """Commit log, consume queues and index files of one broker; create it with `Store.open`.

    The store is made of parts, and each part has one task. `StoreFiles` holds the objects that
    read and write the files. `Appender` adds messages. `Flusher` syncs the log. `ReadLimit` moves
    the position up to which readers see the log. `Reader` reads. `ReplicaLog` adds the bytes of a
    master and cuts the log. `Housekeeping` does the work between appends.

    `__init__` makes the parts and gives each part what it needs. When a call needs several parts,
    `Store` has a method for it. When a call needs one part, the method belongs to that part, and
    `_bind_parts` binds it: `store.read_queue` is `Reader.read_queue`.
    """

    def __init__(
        self,
        files: StoreFiles,
        store_host: bytes,
        lock: Lock,
        safeguards: Safeguards = SAFE,
    ) -> None:
        self.options = options = files.options
        self.pointers = Pointers(reads_bounded=safeguards.read_limit_is_confirmed)
        self.chores = Chores()
        """Blocking steps that wait to run outside the event loop."""
        self.sinks = SinkMemory()
        self.recovered = Recovered(clean=True)
        self.closed = False
        self.on_append: Callable[[], None] | None = None
        """Called after an append that waits for a sync; see `notify_append`."""
        self._safeguards = safeguards
        self._lock = lock
        self.file_bytes = options.commit_log_file_bytes
        """Size of a commit log file; a log starts at a multiple of it."""
        self._fail_fast = options.transient_fail_fast
        # Files
        self._files = files
        self._disk = files.disk
        self._log = files.log
        self._queues = files.queues
        self._checkpoint = files.checkpoint
        self.checksums = files.checksums
        # Appends, by this broker or by a master
        self._gate = Gate(files.disk, options.disk_warning_ratio)
        self._appender = Appender(
            files, store_host, self._on_run, on_failure=self._failed, on_clock_back=self._clock_back
        )
        self._follower = Follower(
            files, self._appender, self.sinks, safeguards, on_failure=self._failed
        )
        # Syncs, and what readers see
        whole_end = self._follower.whole_end
        self._flusher = Flusher(files.log, self.pointers, whole_end)
        self._visibility = Visibility()
        self._read_limit = ReadLimit(files, self.pointers, self._visibility, self._gate, whole_end)
        self._check = ReadCheck(files, self.chores, on_shortened=self._shortened)
        # Work between appends
        self.retention = Retention(files, self.pointers)
        self._housekeeping = Housekeeping(
            files,
            self.pointers,
            self._appender,
            self._flusher,
            self.retention,
            self._check.damage,
            self.chores,
            on_synced=self.synced_to,
            on_failure=self._failed,
        )
        self._commit = Every(options.commit_interval_ms)
        self._flush = Every(options.flush_interval_ms)
        self._flush_thorough = Every(options.flush_thorough_interval_ms)
        self._check_disk = Every(options.disk_check_interval_ms)
        self._look_at_sizes = Every(SIZES_INTERVAL_MS)
        # Reads
        self.scrub = Scrub(files, self.pointers, self._check, self.chores)
        self._reader = Reader(files, self.pointers, self._check)
        self.keys = KeyQueries(files, self._reader, self._index_staged)
        self._native_messages = NativeMessages(
            files, self.pointers, self._reader, store_host, self._appender.is_plain_topic
        )
        # Replication
        self._raw_reader = RawLogReader(files, self.pointers, self._check, self._reader.memory)
        self._truncation = Truncation(
            files,
            self.pointers,
            self._appender,
            self._flusher,
            self._housekeeping,
            self._visibility,
            safeguards,
        )
        self._replica_log = ReplicaLog(
            files,
            self.pointers,
            self._gate,
            self.chores,
            self._flusher,
            self._read_limit,
            self._follower,
            self._truncation,
            self._check,
            self.sinks,
            safeguards,
            on_failure=self._failed,
        )
        self._bind_parts()

    def _bind_parts(self) -> None:
        """Make what callers use of the parts attributes of the store."""
        self.damage = self._check.damage
        reader, queues, native = self._reader, self._queues, self._native_messages
        self.read_queue = reader.read_queue
        self.pull_answers = reader.pull_answers
        self.queue_bounds = reader.bounds
        self.offset_by_time = reader.offset_by_time
        self.offset_at_place = reader.offset_at_place
        self.behind_damage = reader.behind_damage
        self.store_time = reader.store_time
        self.earliest_time = reader.earliest_time
        self.message_at = reader.message_at
        self.units = reader.units
        self.tags_codes = reader.tags_codes
        self.missing_messages = reader.missing_messages
        self.missing_records = reader.memory.missing_records
        self.reading_memory_only = reader.memory.only
        self.confirm_reads = reader.memory.confirm_reads
        self.remake = native.remake
        self.waits = native.waits
        self.topics = queues.names
        self.queues = queues.ids
        self.is_batched = queues.is_batched
        self.queue_types = queues.use_types
        self.first_file = self._log.first_file
        self.when_synced, self.sync_times = self._flusher.wait, self._flusher.times
        self.limit_confirm = self._read_limit.limit_confirm
        self.slice = self._raw_reader.slice
        self.unchecked = self._raw_reader.unchecked
        self.file_of = self._raw_reader.file_of
        replica = self._replica_log
        self.raw_space = replica.raw_space
        self.raw_written = replica.raw_written
        self.append_raw = replica.append_raw
        self.seal_tail = replica.seal_tail
        self.cutting_tail = replica.cutting_tail
        self.cutting = replica.cutting
        self.truncate = replica.truncate
        self.resetting = replica.resetting
        self.reset_to = replica.reset_to

    @classmethod
    def open(
        cls,
        disk: Disk,
        options: StoreOptions,
        store_host: bytes,
        wall: int,
        types: QueueTypes = unknown_type,
        safeguards: Safeguards = SAFE,
        *,
        boot: str = "",
    ) -> "Store":
        """Lock the store directory, recover the store, and return it ready for appends.

        `types` says which topics have batch queues. `boot` identifies the machine's current boot,
        "" if unknown. Raises `StoreInUse` if another process holds the lock, `StoreDamaged` if a
        file is unusable, `LogDamaged` if bytes of the log are not what was written.
        """
        check_restored(disk)
        for folder in (options.commit_log_dir, INDEX_FOLDER):
            disk.make_dir(folder)
        disk.sync_dir("")
        lock = disk.lock(LOCK)
        store = cls(StoreFiles.of(disk, options, types, boot), store_host, lock, safeguards)
        try:
            store._recover(wall)
        except BaseException:
            store._release()
            raise
        return store

    def _recover(self, wall: int) -> None:
        recovery = Recovery(self._files, self.sinks, crc=self._safeguards.crc_on_scan)
        found = self.recovered = recovery.run()
        pointers = self.pointers
        pointers.start = self._log.start
        end = self._check.fresh = self._log.end
        pointers.appended = pointers.synced = self._flusher.whole_synced = end
        confirmed = self._replica_log.recover_confirmed(found) if self.options.replicated else end
        pointers.confirmed = pointers.dispatched = confirmed
        pointers.check_order()
        self._appender.last_wall = min(found.last_wall_ms, wall)
        self._clock_back(
            self._appender.last_wall
        )  # the clock may have gone back while we were stopped
        self._appender.staged += found.held
        try:
            self._mark_running()
        except DiskFull as error:
            self._failed(error)
        if found.cut.size:
            _log.warning(
                "recovery cut %d bytes at log offset %d (%s); they are kept under cut/",
                found.cut.size,
                found.cut.offset,
                found.reason,
            )

    def _mark_running(self) -> None:
        """Create the abort file, which tells the next start of a crash, before any other write."""
        if not self._disk.exists(ABORT):
            self._disk.write_file(ABORT, str(os.getpid()).encode())

    # Writing ----------------------------------------------------------------------------------

    @property
    def writable(self) -> bool:
        """Whether the store accepts appends now."""
        return self._gate.refusal is None

    @property
    def fenced(self) -> str | None:
        """Why the store refuses all writes for good; None if it is not fenced."""
        return self._gate.fenced

    @property
    def disk_full(self) -> bool:
        """Whether writes are refused until the disk has space again."""
        return self._gate.disk_full

    @property
    def out_of_resources(self) -> bool:
        """Whether writes are refused until file descriptors or memory are available again."""
        return self._gate.out_of_resources

    def append(self, drafts: Sequence[Draft], wall: int) -> list[Result]:
        """Append in order, stored at `wall` ms; return each draft's position or refusal."""
        refusal = self._gate.refusal
        if self._fail_fast and self._pool_is_full():
            refusal = refusal or PutStatus.OS_PAGE_CACHE_BUSY
        if refusal is not None:
            return [refusal] * len(drafts)
        return self._appender.append(drafts, wall)

    def notify_append(self, callback: Callable[[], None] | None) -> None:
        """Set the function that is called after each append that waits for a sync, or None."""
        self.on_append = callback

    def append_batch(self, drafts: Sequence[Draft], wall: int) -> list[Appended] | PutStatus:
        """Append all drafts into one log file, or none of them."""
        status = self._gate.refusal or self._appender.fits_one_file(drafts)
        if status is not None:
            return status
        placed: list[Appended] = []
        for result in self._appender.append(drafts, wall):
            if isinstance(result, PutStatus):
                return result
            placed.append(result)
        return placed

    def append_packed(
        self, batch: CheckedBatch, wall: int, is_new: IsNew = unsure
    ) -> Placed | PutStatus | None:
        """Append like `append_batch`, from the request's bytes, in one call of the native code.

        Returns None, and changes nothing, if the batch needs the Python code, for example a
        sink's batch that is not `is_new` as a whole.
        """
        return self._gate.refusal or self._appender.append_packed(batch, wall, is_new)

    def append_run(self, run: SendRun, wall: int) -> int:
        """Append a run of the native code; return the new log end, 0 if nothing was done."""
        may = self._gate.refusal is None and not (self._fail_fast and self._pool_is_full())
        return self._log.end if may and self._appender.append_run(run, wall) else 0

    def _on_run(self, touched: list[ConsumeQueue]) -> None:
        """Handle a run that the log now holds: move the pointers, show the run or hold it back."""
        end = self._log.end
        pointers = self.pointers
        pointers.appended = end
        if self._read_limit.at_once:
            pointers.confirmed = pointers.dispatched = end
            self._visibility.show(touched)
        else:
            self._visibility.hold(end, touched)
            if self.on_append is not None:
                self.on_append()
            if self._read_limit.confirm_limit is not None or not self.options.sync_flush:
                self._read_limit.log_grew()
        if len(self._appender.staged) >= _STAGED_MAX:
            self._index_staged()
        if self._log.pending and not self._fail_fast and self._pool_is_full():
            self.commit()

    def _pool_is_full(self) -> bool:
        pending = self._log.pending
        return pending is not None and len(pending) >= self.options.transient_pool_bytes

    def _index_staged(self) -> bool:
        try:
            self._housekeeping.index_staged()
        except EnvironmentFault as error:
            self._failed(error)
            return False
        return True

    def commit(self) -> None:
        """Write the bytes of the transient pool to the log's file."""
        try:
            self._log.commit()
        except EnvironmentFault as error:
            self._failed(error)
        self._read_limit.advance()

    # Flushing ---------------------------------------------------------------------------------

    @property
    def needs_sync(self) -> bool:
        """Whether anything was appended since the last sync."""
        return self.pointers.synced < self.pointers.appended

    def flush_due(self, now: int) -> bool:
        """Whether to sync now: at once with SYNC_FLUSH, else by interval, pages and waiters."""
        if self._gate.fenced is not None or self._gate.held or not self.needs_sync:
            return False
        if self.options.sync_flush:
            return True
        if not self._flush.due(now):
            return False
        pages = (self.pointers.appended - self.pointers.synced) // _PAGE
        urgent = pages >= self.options.flush_least_pages or self._flusher.awaited
        return urgent or self._flush_thorough.due(now)

    def sync_point(self) -> tuple[int, Callable[[], None]]:
        """Return (offset, blocking call that syncs the log up to it); run the call off the loop."""
        return self._flusher.point(self._appender.last_wall)

    def synced_to(self, offset: int) -> None:
        """Record that the sync to `offset` succeeded; show held messages, call waiters."""
        if self.fenced is not None:
            return
        wall = self._flusher.done(offset)
        if wall is not None and wall <= self._appender.last_wall and not self._gate.held:
            self._checkpoint.log_wall_ms = wall
        if not self._read_limit.at_once:
            self._read_limit.advance()
        self._flusher.release()

    def sync(self) -> None:
        """Sync now, blocking (tests, tools, shutdown); a failure fences the store and raises."""
        try:
            offset, call = self.sync_point()
            call()
        except EnvironmentFault as error:
            self.sync_failed(error)
            raise
        self.synced_to(offset)

    def sync_failed(self, error: EnvironmentFault) -> None:
        """Handle a failed sync: it fences the store, unless the cause is a full disk."""
        self._failed(error)

    def fence(self, reason: str) -> None:
        """Refuse all writes for good: memory and device may differ (fsyncgate)."""
        self._gate.fence(reason)
        self._flusher.fail()

    def _failed(self, error: Exception) -> None:
        """Handle a failed write: refuse writes while space is short, or fence the store."""
        # A blank may have been written before the failed run: it made the log longer.
        self.pointers.appended = max(self.pointers.appended, self._log.end)
        self._gate.failed(error)
        if self._gate.fenced is not None:
            self._flusher.fail()
            self._checkpoint.forget_boot()

    def _clock_back(self, wall: int) -> None:
        if not self._checkpoint.clock_back(wall):
            return
        try:
            self._checkpoint.write()
            self._checkpoint.sync()
        except EnvironmentFault as error:
            self._failed(error)

    # Reading ----------------------------------------------------------------------------------

    @property
    def arrivals(self) -> Callable[[Arrivals], None] | None:
        """Called with (topic, queue id, new max) of queues with new readable messages."""
        return self._visibility.arrivals

    @arrivals.setter
    def arrivals(self, callback: Callable[[Arrivals], None] | None) -> None:
        self._visibility.notify_arrivals(callback)

    def query_index(
        self, topic: str, key: str, max_count: int, begin_wall: int, end_wall: int
    ) -> IndexResult:
        """Return the newest records of `topic` with `key`, stored within the given times (ms)."""
        search = self.keys.newest(topic, key, max_count, begin_wall, end_wall)
        return IndexResult([], 0, 0) if search is None else query_index(search)

    # Replication ------------------------------------------------------------------------------

    @property
    def held(self) -> bool:
        """Whether the log is being cut now, so that appends wait; see `ReplicaLog`."""
        return self._gate.held

    @property
    def whole_end(self) -> int:
        """Log offset below which all records are complete and checked; followers acknowledge it."""
        return self._follower.whole_end()

    @property
    def transferable(self) -> int:
        """Log offset up to which the log may be sent to replicas: what its files hold."""
        return self._log.committed

    @property
    def clean_start(self) -> bool:
        """Whether the last stop was clean and no confirmed bytes are missing (KIP-966, S10)."""
        return self.recovered.clean and self.recovered.lost_confirmed == 0

    def forget_confirmed_sinks(self) -> None:
        """Forget the log offsets of those sink messages that are both confirmed and synced."""
        self.sinks.forget_confirmed(min(self.pointers.confirmed, self.pointers.synced))

    # Housekeeping -----------------------------------------------------------------------------

    def delete_topic(self, topic: str) -> None:
        """Delete the topic's consume queues; its records stay in the log until retention."""
        self._queues.delete(topic)
        self.sinks.forget_topic(topic)

    def clean_unused(self, topics: Collection[str]) -> list[str]:
        """Delete the queues of topics not in `topics`; return the names of the deleted topics."""
        unused = [topic for topic in self._queues.names() if topic not in topics]
        for topic in unused:
            self.delete_topic(topic)
        return unused

    def tick(self, now: int, wall: int) -> None:
        """Do a slice of housekeeping (under 1 ms); blocking work becomes chores."""
        if self.closed or self._gate.held or self._gate.fenced is not None:
            return
        if self._log.pending is not None and self._commit.due(now):
            self.commit()
        if self._check_disk.due(now):
            self._gate.look(self.retention.used_ratio(), self._try_again)
        self._checkpoint.confirmed = self.pointers.confirmed
        self._check.drop_below(self.pointers.start)
        self._check.look_at_faults()
        if self._look_at_sizes.due(now):
            self._check.look_at_sizes()
        self._checkpoint.claim(self.pointers.start, self._flusher.whole_synced)
        self.forget_confirmed_sinks()
        self._housekeeping.tick(now, wall)

    def _shortened(self, offset: int, reason: str) -> None:
        """Fence the store if another program shortened the log file that is being written."""
        if self._log.segments and offset >= self._log.segments[-1].start:
            self.fence(reason)

    def _try_again(self) -> None:
        """Retry the writes that a full disk prevented; raises if they still fail."""
        self._mark_running()
        if self._log.end + _PAGE > self._log.active_end:
            self._log.make_ready()
        self._log.commit()
        self._queues.write_some(1)

    def verify(self) -> Verified:
        """Compare queues and index with the log; for tests and small stores, because it is slow."""
        self.commit()
        self._index_staged()
        verifier = Verifier(self._log, self._queues, self._files.index, self.options)
        end = min(self._log.committed, self.whole_end)
        readable = self.pointers.readable if self.options.replicated else None
        return verifier.run(end, index_end=readable)

    def close(self, wall: int) -> None:
        """Write and sync everything, mark the stop as clean, and release the directory's lock."""
        if self.closed:
            return
        self.closed = True
        self._gate.shut()
        try:
            if self._gate.held:
                _log.error("the store is closed while its log is cut, the next start will recover")
            elif self.fenced is None:
                self._close_clean()
        finally:
            self._flusher.fail()
            self._release()

    def _close_clean(self) -> None:
        self.chores.run_all()
        try:
            self._follower.drop_tail()
            self.pointers.appended = self._log.end
            self.pointers.synced = min(self.pointers.synced, self._log.end)
            self.sync()
            self._checkpoint.confirmed = self.pointers.confirmed
            self._checkpoint.claim(self.pointers.start, self._flusher.whole_synced, clean=True)
            self._housekeeping.finish()
            self._log.drop_ready()
        except EnvironmentFault as error:
            _log.error("the stop is not clean, the next start will recover: %s", error)
            return
        if self.fenced is None:
            self._disk.remove(ABORT)
            self._disk.sync_dir("")

    def _release(self) -> None:
        self._files.close()
        self._lock.release()

    def statistics(self) -> dict[str, int | bool | str]:
        """Return plain figures for the runtime info and for metrics."""
        pointers = self.pointers
        return {
            "start": pointers.start,
            "dispatched": pointers.dispatched,
            "confirmed": pointers.confirmed,
            "appended": pointers.appended,
            "synced": pointers.synced,
            "put_count": self._appender.count,
            "put_bytes": self._appender.bytes,
            "sync_count": self._flusher.count,
            "get_found": self._reader.found,
            "get_missed": self._reader.missed,
            "get_messages": self._reader.messages,
            "queues": self._queues.count,
            "queues_unwritten": len(self._queues.dirty),
            "index_staged": len(self._appender.staged),
            "index_files": len(self._files.index.files) if self._files.index is not None else 0,
            "log_files": len(self._log.segments),
            "log_files_deleted": self.retention.deleted_files,
            "transient_bytes": len(self._log.pending or b""),
            "chores": len(self.chores),
            "disk_full": self.disk_full,
            "fenced": self.fenced or "",
            "recovered_cut_bytes": self.recovered.cut.size,
            "truncated_bytes": self._truncation.bytes,
            "truncations": self._truncation.count,
            "truncated_confirmed_bytes": self._truncation.confirmed_bytes,
            "whole": self.whole_end,
            **self.damage.statistics(),
            **self.scrub.statistics(),
            **self.sinks.statistics(),
        }
