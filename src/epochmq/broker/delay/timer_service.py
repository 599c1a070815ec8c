"""Timer service: loads, runs and saves the timer of a broker (messages for an exact time).

RocketMQ's TimerMessageStore and TimerCheckpoint.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from epochmq.base.errors import EnvironmentFault, StoreDamaged
from epochmq.base.ports import Disk
from epochmq.broker.config.feature_keys import TimerKeys
from epochmq.broker.delay.delivery import TimerStore
from epochmq.broker.delay.timed_messages import Timer
from epochmq.broker.delay.timer_driver import TimerDriver
from epochmq.broker.internal_writes.internal_writer import InternalWriter
from epochmq.broker.state.broker_stats import SAMPLE_MS, Meter
from epochmq.broker.state.saved_files import SavedFile, encode_file, load_table
from epochmq.model.data_version import DataVersion
from epochmq.store.cold_reads import ColdReads
from epochmq.store.timer import timer_checkpoint
from epochmq.store.timer.timer_checkpoint import OlderProgress, TimerCheckpoint
from epochmq.store.timer.timer_files import TimerFiles
from epochmq.store.timer.timer_log import TimerLog
from epochmq.store.timer.wheel import SLOT_COUNT_MAX, WHEEL_BYTES, TimerDamaged, Wheel

# Timer progress ------------------------------------------------------------------------------
# config/timercheck, the timer checkpoint: a saved table in a binary format.


class TimerProgress:
    """The checkpoint of one timer.

    `log_end` returns the end of the commit log. `epoch_at` returns the epoch that wrote the byte
    before a log offset (-1 for none).
    """

    file = timer_checkpoint.FILE

    def __init__(
        self,
        core: Timer,
        log_end: Callable[[], int],
        epoch_at: Callable[[int], int] = lambda offset: -1,
    ) -> None:
        self._core = core
        self._log_end = log_end
        self._epoch_at = epoch_at
        self._synced = b""
        self.version = DataVersion()
        self._saved = core.updates

    @property
    def dirty(self) -> bool:
        return self._core.updates != self._saved

    @dirty.setter
    def dirty(self, value: bool) -> None:
        self._saved = self._core.updates - int(value)

    def step_version(self, wall: int) -> None:
        """Step the version if the progress changed; call it before a save."""
        if self.dirty:
            self.version = self.version.next_version(wall)

    def checkpoint(self) -> TimerCheckpoint:
        core, version = self._core, self.version
        return TimerCheckpoint(
            core.done_ms,
            core.position,
            core.kept_cursor,
            core.covered,
            version.state_version,
            version.timestamp,
            version.counter,
        )

    def encode(self) -> bytes:
        core = self._core
        return self.checkpoint().encode(
            core.precision_ms, self._log_end(), self._synced, core.older
        )

    def answer(self) -> bytes:
        """Return the body of the answer to GET_TIMER_CHECK_POINT (60)."""
        return self.checkpoint().body() + timer_checkpoint.encode_older(self._core.older)

    def sealed(self) -> bytes:
        """Return the present state, to pass to `is_synced` when its deliveries are synced."""
        return self.checkpoint().sealed(self._core.precision_ms, self._log_end())

    def is_synced(self, sealed: bytes) -> None:
        """Note that the deliveries of state `sealed` are synced; the next save includes it.

        After a power cut the timer can start from that state.
        """
        self._synced = sealed

    def adopt(self, body: bytes) -> None:
        """Take over the checkpoint that the master sent; raises `ValueError` on a wrong form."""
        found = timer_checkpoint.decode(body)
        if found is None:
            raise ValueError("not a timer checkpoint")
        end = self._log_end()
        self._core.adopt(found.last_read_ms, found.master_offset, end, self._epoch_at(end))
        self._core.adopt_older(timer_checkpoint.decode_older(body))
        version = DataVersion(found.state_version, found.counter, found.wall_ms)
        if version != self.version:  # otherwise only the clock of an idle master went on
            self.version, self.dirty = version, True

    def begin(self, found: TimerCheckpoint, older: Sequence[OlderProgress] = ()) -> None:
        """Start from the checkpoint of the file."""
        core = self._core
        core.restore(
            found.last_read_ms,
            found.master_offset,
            found.queue_offset,
            found.log_position,
            [row for row in older if row.log_end <= self._log_end()],
        )
        self.version = DataVersion(found.state_version, found.counter, found.wall_ms)
        self.dirty = False


# Timer service -------------------------------------------------------------------------------


log = logging.getLogger(__name__)


class Saving(Protocol):
    """Writes tables in another thread (`broker/state/table_writer.py`)."""

    def snapshot(
        self, table: SavedFile, before: Callable[[], Callable[[], None]] | None = None
    ) -> Callable[[], None] | None: ...


class TimerService:
    """The timer of one broker.

    `options` returns the present options. `log_bounds` returns the begin and end of the commit log
    (log offsets). `epoch_at` returns the epoch that wrote the byte before a log offset (-1 for
    none).
    """

    def __init__(
        self,
        disk: Disk,
        store: TimerStore,
        internal_writer: InternalWriter,
        options: Callable[[], TimerKeys],
        log_bounds: Callable[[], tuple[int, int]],
        *,
        cold_reads: ColdReads | None = None,
        wheel_bytes: int = WHEEL_BYTES,
        epoch_at: Callable[[int], int] = lambda offset: -1,
    ) -> None:
        keys = options()
        core = Timer(keys.timer_precision_ms, keys.timer_roll_window_slot)
        wheel = Wheel(disk, wheel_bytes)
        timer_log = TimerLog(disk, keys.mapped_file_size_timer_log)
        files = TimerFiles(wheel, timer_log, keys.timer_precision_ms)
        self.driver = TimerDriver(
            core, files, store, internal_writer, log_bounds, epoch_at, cold_reads or ColdReads()
        )
        self.progress = TimerProgress(core, lambda: log_bounds()[1], epoch_at)
        self._log_bounds = log_bounds
        self._disk = disk
        self._options = options
        self.taken, self.given = Meter(), Meter()
        """Meters of the messages that were placed on the wheel, and of those delivered."""
        self._refused = 0
        self._sampled_at = 0
        self._sync_failed = False

    def open(self) -> None:
        """Load the checkpoint and open the timer files; rebuild files that do not match it."""
        driver, progress = self.driver, self.progress
        is_counted = self._load_metrics()
        data = self._disk.read_file(progress.file)
        found = timer_checkpoint.decode(
            data or b"", driver.core.precision_ms, self._log_bounds()[1]
        )
        if found is None:
            if not data and not driver.files.exist(self._disk):
                return  # the first start
            if data:
                log.error(
                    "%(file)s cannot be decoded: all messages count as not delivered",
                    {"file": progress.file},
                )
            driver.rebuild()
            return
        progress.begin(found, timer_checkpoint.decode_older(data or b""))
        try:
            if found.log_position < 0:
                raise TimerDamaged("they were written by another broker, or with other slots")
            if not is_counted:
                raise TimerDamaged(f"{driver.metrics.file} is damaged, so all are counted again")
            driver.files.open(found.log_position)
        except TimerDamaged as error:
            log.warning(
                "the timer's files are rebuilt from the timer topic: %(error)s", {"error": error}
            )
            driver.rebuild()

    def _load_metrics(self) -> bool:
        """Load the timer metrics; return False if the messages must be counted again.

        Damage does not stop the start, because the log contains the messages.
        """
        metrics = self.driver.metrics
        try:
            loaded = load_table(self._disk, metrics)
        except StoreDamaged as error:
            log.error("%(error)s", {"error": error})
            metrics.reset()
            return False
        return loaded is None or not loaded.replaced

    def tick(self, wall: int, *, delivers: bool, rests: bool = False) -> None:
        """Do all due work at wall time `wall` (ms); `delivers` allows deliveries.

        With `rests` (the lease is over but may be renewed) nothing is put, but the state is kept:
        otherwise messages in flight would be delivered twice, although no other broker delivered.
        """
        keys, driver = self._options(), self.driver
        driver.stop_enqueue = keys.timer_stop_enqueue
        driver.stop_dequeue = keys.timer_stop_dequeue or rests
        if self._sync_failed:
            self._sync_failed = False
            log.error("the timer's files are rebuilt: the device could not write them")
            driver.find_damaged()
        driver.tick(wall, delivers=delivers or rests)
        if not 0 <= wall - self._sampled_at < SAMPLE_MS:
            self._sampled_at = wall
            self.taken.total, self.given.total = driver.enqueued, driver.delivered
            self.taken.sample(wall)
            self.given.sample(wall)

    def next_deadline(self, wall: int) -> int | None:
        """Return the wall time (ms) of the next tick that has work; None without work."""
        return self.driver.next_deadline(wall)

    def is_congested(self, slot_ms: int) -> bool:
        """Return whether a message for this slot is refused (`timerCongestNumEachSlot`).

        Above the limit a part of the messages is refused; at twice the limit all are refused.
        """
        limit = self._options().timer_congest_num_each_slot
        if limit >= SLOT_COUNT_MAX:  # no check: it would cost a read for each message
            return False
        count = self.driver.count_at(slot_ms)
        if count <= limit:
            return False
        self._refused += 1
        return self._refused * 617 % 1000 < 1000 * (count - limit) // limit

    def save(
        self, wall: int, table_writer: Saving, when_synced: Callable[[Callable[[bool], None]], None]
    ) -> None:
        """Save the progress: sync the timer files, then write the checkpoint.

        `when_synced` calls back when the log is synced. Then the delivered slots are emptied, and
        the checkpoint includes that state as the newest one whose deliveries are synced.
        """
        driver, progress = self.driver, self.progress
        if driver.delivers:  # a replica has its master's versions
            driver.metrics.step_version(wall)
            progress.step_version(wall)
        metrics = table_writer.snapshot(driver.metrics)
        if metrics is not None:
            metrics()
        write = table_writer.snapshot(progress, lambda: self._noted(driver.files.sync_point()))
        if write is not None:
            write()
        finished = frozenset(driver.finished)
        if write is None and not finished:
            return
        rebuilds, sealed = driver.rebuilds, progress.sealed()

        def synced(ok: bool) -> None:
            if ok and driver.rebuilds == rebuilds:
                progress.is_synced(sealed)
                driver.clear(finished)

        when_synced(synced)

    def _noted(self, sync: Callable[[], None]) -> Callable[[], None]:
        """Wrap `sync` so that a failure is noted: the content of the files is then unknown."""

        def noted() -> None:
            try:
                sync()
            except EnvironmentFault:
                self._sync_failed = True
                raise

        return noted

    def save_now(self, wall: int) -> None:
        """Save everything at a stop; all deliveries must be synced already. Blocks."""
        driver, progress = self.driver, self.progress
        progress.dirty = True
        if driver.delivers:
            driver.metrics.step_version(wall)
            progress.step_version(wall)
        driver.clear(frozenset(driver.finished))
        progress.is_synced(progress.sealed())
        driver.files.sync_point()()
        for table in (progress, driver.metrics):
            self._disk.write_file(table.file, encode_file(table))

    def close(self) -> None:
        """Close the timer files without writing."""
        try:
            self.driver.files.close()
        except EnvironmentFault as error:
            log.error("the timer's files do not close: %(error)s", {"error": error})
