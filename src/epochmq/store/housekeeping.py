"""Housekeeping: what a store does between appends, in slices of under a millisecond (`tick`).

It indexes staged keys, writes queue tails, creates the next log file ahead, writes the checkpoint,
deletes expired files and computes checksums. Work that waits for the device becomes a chore.
"""

from collections.abc import Callable

from epochmq.base.errors import DiskFailed, DiskFull, EnvironmentFault
from epochmq.store.append import Appender
from epochmq.store.chores import Chores, Step
from epochmq.store.consume_queue import ConsumeQueue
from epochmq.store.damaged_ranges import DamagedRange, DamageTable
from epochmq.store.flush import Flusher
from epochmq.store.held_keys import HELD_KEYS_MAX, ready_rows, waiting_keys
from epochmq.store.next_file import NextFile
from epochmq.store.pointers import Pointers
from epochmq.store.retention import Retention
from epochmq.store.store_files import StoreFiles

QUEUES_A_TICK = 16
SYNCS_A_STEP = 8


class Every:
    """A period (ms) on the monotonic clock; due at the first call."""

    def __init__(self, period_ms: int) -> None:
        self._period_ms = period_ms
        self._at_ms: int | None = None

    def due(self, now: int) -> bool:
        if self._at_ms is None or now >= self._at_ms:
            self._at_ms = now + self._period_ms
            return True
        return False


class Housekeeping:
    """Writes and syncs the derived files, the checkpoint and the checksums."""

    def __init__(
        self,
        files: StoreFiles,
        pointers: Pointers,
        appender: Appender,
        flusher: Flusher,
        retention: Retention,
        damage: DamageTable,
        chores: Chores,
        on_synced: Callable[[int], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        """`on_synced` is called when a chore has synced the log up to an offset.

        `on_failure` is called with the error of a failed write or sync.
        """
        options = files.options
        self._disk = files.disk
        self._options = options
        self._log = files.log
        self._queues = files.queues
        self._index = files.index
        self._checkpoint = files.checkpoint
        self._checksums = files.checksums
        self._pointers = pointers
        self._appender = appender
        self._flusher = flusher
        self._retention = retention
        self._damage = damage
        self._chores = chores
        self._on_synced = on_synced
        self._claims = 0
        """Changes at each log cut: claims of syncs that began before are void."""
        self._on_failure = on_failure
        self._next_file = NextFile(files, chores, on_failure)
        self._write_queues = Every(options.queue_write_interval_ms)
        self._sync_queues = Every(options.queue_sync_interval_ms)
        self._sync_index = Every(options.index_sync_interval_ms)
        self._write_checkpoint = Every(options.checkpoint_interval_ms)
        self._clean = Every(options.clean_interval_ms)
        self._to_write: list[ConsumeQueue] = []
        self._writing = False
        self._queues_wall: int | None = None
        """Store time (ms) that the running queue sync covers."""

    def tick(self, now: int, wall: int) -> None:
        """Do one slice; work that fails for lack of space is retried by a later tick."""
        try:
            self.index_staged()
            self._tick_queues(now)
            self._tick_log()
            if self._sync_index.due(now):
                self.sync_index()
                self._sync_claims()
            write_checkpoint = self._write_checkpoint.due(now)
            if write_checkpoint:
                self._checkpoint.write()
            self._cover_log(partial=write_checkpoint)
            if self._clean.due(now):
                self._retention.delete_expired(wall)
                self._checksums.drop_below(self._pointers.start)
                if not self._chores.busy("index"):
                    self._retention.clean_index()
            self._retention.clean_queues(QUEUES_A_TICK)
        except (DiskFull, DiskFailed) as error:
            self._on_failure(error)

    def index_staged(self) -> None:
        """Add staged keys to the index; under replication only those of readable records."""
        staged = self._appender.staged
        if self._index is None or not staged:
            return
        count = len(staged)
        if self._options.replicated and waiting_keys(staged) <= HELD_KEYS_MAX:
            count = ready_rows(staged, self._pointers.readable, self._log)
        if count:
            self._index.add(staged[:count])
            del staged[:count]
            self._index.write_items()

    def forget_claims(self) -> None:
        """Void the running syncs' claims on the checkpoint's times, because the log was cut."""
        self._claims += 1

    def _tick_queues(self, now: int) -> None:
        if self._write_queues.due(now):
            self._writing = True
        if self._sync_queues.due(now) and self._queues_wall is None:
            self._queues_wall = self._appender.last_wall
            self._to_write = list(self._queues.dirty)
        if self._writing:
            self._writing = self._queues.write_some(QUEUES_A_TICK) > 0
        if self._writing or self._queues_wall is None:
            return
        if not self._chores.busy("queues"):
            for _ in range(min(QUEUES_A_TICK, len(self._to_write))):
                self._to_write[-1].write_out()
                self._to_write.pop()
            if not self._to_write:
                self.sync_queues(self._queues_wall)

    def sync_queues(self, wall: int) -> None:
        """Add a chore that syncs all queue files written so far, which cover store time `wall`
        (ms).
        """
        files = self._queues.files
        paths, created = sorted(files.unsynced), sorted(files.created)
        files.unsynced.clear()
        files.created.clear()
        folders = sorted({folder for path in created for folder in _folders(path)}, reverse=True)
        steps: list[Step] = [
            *_sliced(self._sync_files, paths),
            *_sliced(self._sync_folders, folders),
        ]
        claims = self._claims

        def done(error: EnvironmentFault | None) -> None:
            self._queues_wall = None
            if error is not None:
                files.unsynced.update(paths)
                files.created.update(created)
                self._on_failure(error)
            elif wall <= self._appender.last_wall and claims == self._claims:
                # Otherwise the clock went back, or the log was cut meanwhile.
                self._checkpoint.queues_wall_ms = wall

        self._chores.add("queues", steps, done)

    def _sync_files(self, paths: list[str]) -> None:
        """Sync files by path; deleted files are skipped."""
        for path in paths:
            if self._disk.exists(path):
                file = self._disk.open(path)
                try:
                    file.sync()
                finally:
                    file.close()

    def _sync_folders(self, folders: list[str]) -> None:
        for folder in folders:
            if self._disk.exists(folder):
                self._disk.sync_dir(folder)

    def sync_index(self) -> None:
        """Add a chore that syncs the log, then the index, so that the index names no lost
        record.
        """
        index = self._index
        if index is None or self._chores.busy("index"):
            return
        self.index_staged()
        wall = self._appender.last_wall
        offset, sync_log = self._flusher.point(wall)
        steps: list[Step] = [sync_log, *index.sync_steps()]
        claims = self._claims

        def done(error: EnvironmentFault | None) -> None:
            index.sync_done(error is not None)
            if error is not None:
                self._on_failure(error)
                return
            self._on_synced(offset)
            if wall <= self._appender.last_wall and claims == self._claims:
                self._checkpoint.index_wall_ms = wall

        self._chores.add("index", steps, done)

    def _sync_claims(self) -> None:
        """Add a chore that makes durable up to where the log is known to be synced.

        Beyond that offset, damage and a torn tail look the same after a power cut.
        """
        if not self._chores.busy("claims"):
            self._checkpoint.write()
            steps = [*self._checksums.sync_steps(newest=True), self._checkpoint.sync]
            self._chores.add("claims", steps, lambda _error: None)

    def _cover_log(self, *, partial: bool) -> None:
        """Add a chore that computes checksums of full blocks, and if `partial`, of the last block.

        After a crash only recently written bytes are without a checksum.
        """
        if self._chores.busy("checksums"):
            return
        checksums, limit = self._checksums, self._flusher.whole_synced
        if checksums.record_written(limit):
            return
        steps, found = checksums.steps(limit, partial=partial)
        if steps:
            generation = checksums.generation

            def done(_error: EnvironmentFault | None) -> None:
                self._report(checksums.record(found, generation))

            self._chores.add("checksums", steps + checksums.sync_steps(), done)

    def _report(self, bad: list[DamagedRange]) -> None:
        for start, end, reason in bad:
            self._damage.report(start, end, reason)

    def finish(self) -> None:
        """Write and sync everything derived, and the checkpoint, for a clean stop."""
        self.index_staged()
        self._queues.write_some(len(self._queues.dirty))
        for queue in self._queues.all():
            queue.clear_behind()
        self.sync_queues(self._appender.last_wall)
        self.sync_index()
        self._chores.run_all()
        if self._index is not None:
            self._index.write_checksums()
        self._report(self._checksums.cover(self._flusher.whole_synced))
        self._checksums.sync()
        self._checkpoint.write()
        self._checkpoint.sync()
        self._next_file.clean()

    def _tick_log(self) -> None:
        """Begin to create the next file once a quarter of the active file is used."""
        log = self._log
        if log.ready is None and log.segments:
            left = log.active_end - log.end
            if left < log.file_bytes - log.file_bytes // 4:
                self._next_file.begin()


def _folders(path: str) -> list[str]:
    """Return the parent directories of `path`, the root last."""
    found = []
    while path:
        path = path.rpartition("/")[0]
        found.append(path)
    return found


def _sliced(call: Callable[[list[str]], None], names: list[str]) -> list[Step]:
    """Return steps that run `call` for all names, a few names per step."""
    return [
        lambda part=names[at : at + SYNCS_A_STEP]: call(part)  # type: ignore[misc]
        for at in range(0, len(names), SYNCS_A_STEP)
    ]
