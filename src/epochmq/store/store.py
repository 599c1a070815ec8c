"""The store as the broker sees it: one object, plain calls, no role and no network."""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Callable, Collection, Sequence

from epochmq.base.errors import DiskFull, EnvironmentFault
from epochmq.base.ports import Disk, Lock
from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.store.append import Appender, IsNew, Result, unsure
from epochmq.store.batch_queue import BatchQueue
from epochmq.store.checkpoint import Checkpoint, WriterMark
from epochmq.store.checksums import BlockChecksums
from epochmq.store.chores import Chores
from epochmq.store.commit_log import CommitLog
from epochmq.store.consume_queue import ConsumeQueue
from epochmq.store.damaged_ranges import DamageTable
from epochmq.store.dispatch import LogDispatcher
from epochmq.store.draft import Appended, Draft, PutStatus
from epochmq.store.flush import Flusher, Waiter
from epochmq.store.follow import Follower
from epochmq.store.gate import Gate
from epochmq.store.housekeeping import Every, Housekeeping
from epochmq.store.message_index import FOLDER as INDEX_FOLDER
from epochmq.store.message_index import Index
from epochmq.store.native_batch import CheckedBatch, Placed
from epochmq.store.native_send import SendRun
from epochmq.store.options import StoreOptions
from epochmq.store.pointers import Pointers
from epochmq.store.queue_table import QueueTable, QueueTypes, unknown_type
from epochmq.store.read import Reader
from epochmq.store.read_check import ReadCheck
from epochmq.store.recovery import ABORT, Recovered, Recovery
from epochmq.store.replicated import StoreReplication
from epochmq.store.retention import Retention
from epochmq.store.scrub import Scrub
from epochmq.store.sinks import SinkMemory
from epochmq.store.store_reads import StoreReads
from epochmq.store.truncation import Truncation
from epochmq.store.verify import Verified, Verifier
from epochmq.store.visibility import Arrivals, Visibility

_log = logging.getLogger(__name__)

LOCK = "lock"
_STAGED_MAX = 1024
_PAGE = 4096
SIZES_INTERVAL_MS = 1000
"""How often the sizes of log files are compared with what they were."""


class Store(StoreReads, StoreReplication):
    """Commit log, queues and indexes of one broker. Made by `Store.open`."""

    def __init__(
        self,
        disk: Disk,
        options: StoreOptions,
        store_host: bytes,
        lock: Lock,
        safeguards: Safeguards = SAFE,
        boot: str = "",
    ) -> None:
        self._disk = disk
        self._lock = lock
        self.options = options
        self.pointers = Pointers()
        self._log = CommitLog(disk, options)
        self._queues = QueueTable(disk, options)
        self._index = Index(disk, options) if options.index else None
        self._checkpoint = Checkpoint(disk)
        self.checksums = BlockChecksums(disk, self._log)
        self._visibility = Visibility()
        self._appender = Appender(self._log, self._queues, options, store_host)
        self._use_native(options, store_host, self._log, self._appender.is_plain_topic)
        self._flusher = Flusher(self._log, self.pointers)
        self.retention = Retention(
            disk, options, self._log, self._queues, self._index, self.pointers
        )
        self._housekeeping = Housekeeping(
            *(disk, options, self._log, self._queues, self._index, self._appender),
            self._flusher,
            self._checkpoint,
            self.retention,
            self.pointers,
            self.checksums,
            self._failed,
        )
        self.damage = DamageTable()
        """Ranges of the log that reads refuse."""
        self._check = ReadCheck(
            disk,
            self._log,
            self.checksums,
            self.damage,
            LogDispatcher(self._queues, options.delays_ms, from_start=True, index=False).tags_code,
            self._housekeeping.chores,
        )
        self._check.on_shortened = self._shortened
        self._check.on_distrust = self._distrust
        self._reader = Reader(self._log, self._queues, self.pointers, self._check)
        self.scrub = Scrub(
            disk,
            self._log,
            self.pointers,
            self.checksums,
            self._check,
            self._housekeeping.chores,
        )
        self._look_at_sizes = Every(SIZES_INTERVAL_MS)
        self._safeguards = safeguards
        self._boot = boot
        self.pointers.reads_bounded = safeguards.read_limit_is_confirmed
        self.sinks = SinkMemory()
        self._follower = Follower(
            *(self._log, self._queues, self._appender, options, safeguards, self.sinks)
        )
        self._follower.on_failure = self._failed
        self._truncation = Truncation(
            *(disk, options, self._log, self._queues, self._index, self._appender),
            *(self._flusher, self._checkpoint, self._housekeeping, self._visibility),
            self.pointers,
            self.checksums,
            safeguards,
        )
        self._flusher.whole_end = lambda: self.whole_end
        self._housekeeping.checksum_limit = lambda: self._flusher.whole_synced
        self._housekeeping.on_synced = self.synced_to
        self._appender.on_run = self._on_run
        self._appender.on_failure = self._failed
        self._appender.on_clock_back = self._clock_back
        self._gate = Gate(disk, options.disk_warning_ratio)
        self._fail_fast = options.transient_fail_fast
        self._confirm_limit: int | None = None
        self._at_once = not (options.sync_flush or options.transient_pool or options.replicated)
        self._check_disk = Every(options.disk_check_interval_ms)
        self._commit = Every(options.commit_interval_ms)
        self._flush_thorough = Every(options.flush_thorough_interval_ms)
        self._flush = Every(options.flush_interval_ms)
        self.on_append: Callable[[], None] | None = None
        """Called after an append that waits for a sync; the service wakes up on it."""
        self.recovered = Recovered(clean=True)
        self.closed = False

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
        """Lock the directory, recover what is there, and be ready for appends.

        `types` says which topics have batch queues; see `queue_types`.
        `boot` names this run of the machine, "" where the system does not tell.
        `StoreInUse` when another process has it, `StoreDamaged` when files cannot be what they
        must be, `LogDamaged` when bytes of the log are not what was written.
        """
        for folder in (options.commit_log_dir, INDEX_FOLDER):
            disk.make_dir(folder)
        disk.sync_dir("")
        store = cls(disk, options, store_host, disk.lock(LOCK), safeguards, boot)
        store.queue_types(types)
        try:
            store._recover(wall)
        except BaseException:
            store._release()
            raise
        return store

    def queue_types(self, types: QueueTypes) -> None:
        """Ask `types` from now on what queues a new topic gets."""
        self._queues.types = types

    def _recover(self, wall: int) -> None:
        recovery = Recovery(
            *(self._disk, self.options, self._log, self._queues, self._index, self._checkpoint),
            self.sinks,
            self.checksums,
            crc=self._safeguards.crc_on_scan,
            boot=self._boot,
        )
        found = self.recovered = recovery.run()
        pointers = self.pointers
        pointers.start = self._log.start
        end = self._check.fresh = self._log.end
        pointers.appended = pointers.synced = self._flusher.whole_synced = end
        pointers.confirmed = pointers.dispatched = self._recovered_confirm(end)
        pointers.check_order()
        self._appender.last_wall = min(found.last_wall_ms, wall)
        self._clock_back(self._appender.last_wall)  # if the clock did while we were stopped
        self._appender.staged += found.held
        try:
            self._mark_running()
        except DiskFull as error:
            self._failed(error)
        if found.cut.size:
            _log.warning(
                "recovery cut %d bytes at log offset %d (%s); they are kept under cut/",
                *(found.cut.size, found.cut.offset, found.reason),
            )

    def _recovered_confirm(self, end: int) -> int:
        """Under replication only what the checkpoint calls confirmed is (rocketmq#6609, #6703)."""
        if not self.options.replicated:
            return end
        told = self._checkpoint.confirmed
        self.recovered.lost_confirmed = max(0, told - end)
        self._confirm_limit = confirmed = max(self._log.start, min(told, end))
        if confirmed < end:
            self._visibility.hold_all(self._queues.all(), confirmed)
        self._checkpoint.confirmed = confirmed
        self._checkpoint.write()
        self._checkpoint.sync()  # what readers are shown now is shown after the next crash too
        return confirmed

    def _mark_running(self) -> None:
        """Leave the file that tells the next start of a crash; nothing is written before that."""
        if not self._disk.exists(ABORT):
            self._disk.write_file(ABORT, str(os.getpid()).encode())

    # Writing ----------------------------------------------------------------------------------

    @property
    def writable(self) -> bool:
        """Whether an append would be tried now."""
        return self._gate.refusal is None

    @property
    def fenced(self) -> str | None:
        """Why nothing may be written any more, ever."""
        return self._gate.fenced

    @property
    def disk_full(self) -> bool:
        """Writes are refused until there is space again."""
        return self._gate.disk_full

    @property
    def out_of_resources(self) -> bool:
        """Writes are refused until there are file descriptors or memory again."""
        return self._gate.out_of_resources

    def append(self, drafts: Sequence[Draft], wall: int) -> list[Result]:
        """Append in order with one log write for the run; a place or a reason for each draft."""
        refusal = self._gate.refusal
        if self._fail_fast and self._pool_is_full():
            refusal = refusal or PutStatus.OS_PAGE_CACHE_BUSY
        if refusal is not None:
            return [refusal] * len(drafts)
        return self._appender.append(drafts, wall)

    def append_batch(self, drafts: Sequence[Draft], wall: int) -> list[Appended] | PutStatus:
        """Append all drafts into one file, or none of them."""
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
        """As `append_batch`, from the request's bytes and in one call of the native code.

        None when there is no native code or the batch is not for it, as a sink's that not `is_new`
        as a whole: then nothing has changed.
        """
        return self._gate.refusal or self._appender.append_packed(batch, wall, is_new)

    def append_run(self, run: SendRun, wall: int) -> int:
        """Append what the native code has made; its end, 0 if it cannot: nothing was done."""
        may = self._gate.refusal is None and not (self._fail_fast and self._pool_is_full())
        return self._log.end if may and self._appender.append_run(run, wall) else 0

    def _on_run(self, touched: list[ConsumeQueue]) -> None:
        """A run is in the log: move the pointers, show it or let it wait."""
        end = self._log.end
        pointers = self.pointers
        pointers.appended = end
        if self._at_once:
            pointers.confirmed = pointers.dispatched = end
            self._visibility.show(touched)
        else:
            self._visibility.hold(end, touched)
            if self.on_append is not None:
                self.on_append()
            if self._confirm_limit is not None or not self.options.sync_flush:
                self._advance()
        if len(self._appender.staged) >= _STAGED_MAX:
            self._index_staged()
        if self._log.pending and not self._fail_fast and self._pool_is_full():
            self.commit()

    def _pool_is_full(self) -> bool:
        pending = self._log.pending
        return pending is not None and len(pending) >= self.options.transient_pool_bytes

    def _index_staged(self) -> None:
        try:
            self._housekeeping.index_staged()
        except EnvironmentFault as error:
            self._failed(error)

    def commit(self) -> None:
        """Write what waits in the transient pool to the log's file."""
        try:
            self._log.commit()
        except EnvironmentFault as error:
            self._failed(error)
        self._advance()

    def _advance(self) -> None:
        """Move `confirmed` and what readers see as far as every bound allows."""
        if self.held:
            return  # what is being cut must not show again
        pointers = self.pointers
        whole = min(self.whole_end, self._log.committed)
        target = min(pointers.synced, whole) if self.options.sync_flush else whole
        limit = self._confirm_limit
        if limit is None:
            pointers.confirmed = max(pointers.confirmed, target)
        elif limit > pointers.confirmed:
            pointers.confirmed = max(pointers.confirmed, min(limit, whole))
        if pointers.reads_bounded:
            target = min(target, pointers.confirmed)
        if target > pointers.dispatched:
            pointers.dispatched = target
            self._visibility.advance(target)
        pointers.check_order()

    def limit_confirm(self, offset: int | None) -> None:
        """Bound `confirmed`, and so what readers see, by `offset` (replication); None: no bound.

        `confirmed` never goes back, and is never beyond the records that are here.
        """
        self._confirm_limit = offset
        self._at_once = offset is None and not (
            self.options.sync_flush or self.options.transient_pool
        )
        self._advance()

    # Flushing ---------------------------------------------------------------------------------

    @property
    def needs_sync(self) -> bool:
        """Whether anything was appended since the last sync."""
        return self.pointers.synced < self.pointers.appended

    def flush_due(self, now: int) -> bool:
        """Whether to sync now: with SYNC_FLUSH if needed, else by interval, pages and who waits."""
        if self.fenced is not None or self.held or not self.needs_sync:
            return False
        if self.options.sync_flush:
            return True
        if not self._flush.due(now):
            return False
        pages = (self.pointers.appended - self.pointers.synced) // _PAGE
        urgent = pages >= self.options.flush_least_pages or self._flusher.awaited
        return urgent or self._flush_thorough.due(now)

    def sync_point(self) -> tuple[int, Callable[[], None]]:
        """(offset, the blocking call that makes the log durable up to it; run it elsewhere)."""
        return self._flusher.point(self._appender.last_wall)

    def synced_to(self, offset: int) -> None:
        """The call of `sync_point` succeeded: show what waited, and release who waited."""
        if self.fenced is not None:
            return
        wall = self._flusher.done(offset)
        if wall is not None and wall <= self._appender.last_wall and not self.held:
            self._checkpoint.log_wall_ms = wall
        if not self._at_once:
            self._advance()
        self._flusher.release()

    def when_synced(self, offset: int, callback: Waiter) -> None:
        """Call back, in order, with True once `offset` is synced; with False when it never is."""
        self._flusher.wait(offset, callback)

    def sync(self) -> None:
        """Sync here and now (tests, tools, shutdown); a failure fences the store and raises."""
        try:
            offset, call = self.sync_point()
            call()
        except EnvironmentFault as error:
            self.sync_failed(error)
            raise
        self.synced_to(offset)

    def sync_failed(self, error: EnvironmentFault) -> None:
        """A sync point or its call failed: a failed sync is final, a full disk is not."""
        self._failed(error)

    def fence(self, reason: str) -> None:
        """Nothing may be written any more: memory and device may disagree (fsyncgate)."""
        self._gate.fence(reason)
        self._flusher.fail()

    def _failed(self, error: Exception) -> None:
        """A write failed: no space heals by itself, anything else does not."""
        # A blank may have been written before the run that failed: the log did grow by it.
        self.pointers.appended = max(self.pointers.appended, self._log.end)
        self._gate.failed(error)
        if self._gate.fenced is not None:
            self._flusher.fail()
            self._forget_boot()

    def _claim_synced(self, *, clean: bool = False) -> None:
        """Let the checkpoint say how far the log is on the device; `clean`: it ends there."""
        start = self.pointers.start
        end = max(start, self._flusher.whole_synced)
        self._checkpoint.mark = WriterMark(clean, start, end, self._boot)

    def _forget_boot(self) -> None:
        """After a failed sync the cache may lose anything, as after a power cut."""
        mark = self._checkpoint.mark
        self._boot = ""
        if mark is not None and mark.boot:
            self._checkpoint.mark = dataclasses.replace(mark, clean=False, boot="")
            with contextlib.suppress(EnvironmentFault):
                self._checkpoint.write()

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
        """Told (topic, queue id, new max) once per append group, after the data is readable."""
        return self._visibility.arrivals

    @arrivals.setter
    def arrivals(self, callback: Callable[[Arrivals], None] | None) -> None:
        self._visibility.arrivals = callback

    # Keeping house ----------------------------------------------------------------------------

    def delete_topic(self, topic: str) -> None:
        """Forget a topic's queues; its records stay in the log until that expires."""
        self._queues.delete(topic)
        self.sinks.forget_topic(topic)

    def clean_unused(self, topics: Collection[str]) -> list[str]:
        """Delete the queues of every topic that is not among `topics`; the deleted ones."""
        unused = [topic for topic in self._queues.names() if topic not in topics]
        for topic in unused:
            self.delete_topic(topic)
        return unused

    def tick(self, now: int, wall: int) -> None:
        """A slice of housekeeping, under a millisecond; blocking work becomes chores."""
        if self.closed or self.held or self.fenced is not None:
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
        self._claim_synced()
        self.forget_confirmed_sinks()
        self._housekeeping.tick(now, wall)

    def _distrust(self) -> None:
        """Compare all units and records again."""
        for queue in self._queues.all():
            run = queue.run if isinstance(queue, BatchQueue) else queue
            run.trusted = run.next
            run.checked.clear()

    def _shortened(self, offset: int, reason: str) -> None:
        """Somebody shortened a log file: write nothing more if it is the one that is written."""
        if self._log.segments and offset >= self._log.segments[-1].start:
            self.fence(reason)

    def _try_again(self) -> None:
        """What a full disk may have kept from happening; raises while it still does."""
        self._mark_running()
        if self._log.end + _PAGE > self._log.active_end:
            self._log.make_ready()
        self._log.commit()
        self._queues.write_some(1)

    def first_file(self) -> Callable[[], object] | None:
        """A blocking step before anything is appended: see `CommitLog.first_file`."""
        return self._log.first_file

    def verify(self) -> Verified:
        """Compare everything derived with the log; for tests and small stores, it takes long."""
        self.commit()
        self._index_staged()
        verifier = Verifier(self._log, self._queues, self._index, self.options)
        end = min(self._log.committed, self.whole_end)
        readable = self.pointers.readable if self.options.replicated else None
        return verifier.run(end, index_end=readable)

    @property
    def chores(self) -> Chores:
        """Blocking steps that wait to be run beside the loop."""
        return self._housekeeping.chores

    def close(self, wall: int) -> None:
        """Write and sync everything, mark the stop as clean, and let go of the directory."""
        if self.closed:
            return
        self.closed = True
        self._gate.shut()
        try:
            if self.held:
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
            self._claim_synced(clean=True)
            self._housekeeping.finish()
            self._log.drop_ready()
        except EnvironmentFault as error:
            _log.error("the stop is not clean, the next start will recover: %s", error)
            return
        if self.fenced is None:
            self._disk.remove(ABORT)
            self._disk.sync_dir("")

    def _release(self) -> None:
        self._log.close()
        self._queues.files.close()
        self.checksums.close()
        self._checkpoint.close()
        if self._index is not None:
            self._index.close()
        self._lock.release()

    def statistics(self) -> dict[str, int | bool | str]:
        """Plain figures for runtime info and metrics."""
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
            "queues": len(self._queues.all()),
            "queues_unwritten": len(self._queues.dirty),
            "index_staged": len(self._appender.staged),
            "index_files": len(self._index.files) if self._index is not None else 0,
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
