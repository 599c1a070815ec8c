"""The log as replication uses it: raw bytes to and from other brokers, log cuts, and restarts.

The store knows no role. It follows a master from the first raw byte (`raw_space`, `append_raw`)
until `seal_tail`; meanwhile appends are refused (INV-32).

A cut of the log waits for the device. `cutting` yields its blocking steps, so that they may run
outside the event loop. While they run the store is `held`: nothing is appended in any role, no
sync, chore or housekeeping begins, and readers see no bytes that are cut.
"""

from collections.abc import Callable, Sequence

from epochmq.base.errors import EnvironmentFault, PeerError, StoreDamaged, UsageError, check
from epochmq.base.ports import Buffer, File
from epochmq.base.safeguards import Safeguards
from epochmq.store.chores import Chores, Steps, run_steps
from epochmq.store.epochs import EpochEntry
from epochmq.store.flush import Flusher
from epochmq.store.follow import DamagedStream, Follower
from epochmq.store.gate import Gate
from epochmq.store.log_end import CutTail
from epochmq.store.log_memory import LogMemory
from epochmq.store.pointers import Pointers
from epochmq.store.read_check import ReadCheck
from epochmq.store.recovery import Recovered
from epochmq.store.sinks import SinkMemory, remove_snapshot
from epochmq.store.store_files import StoreFiles
from epochmq.store.truncation import Truncation
from epochmq.store.visibility import ReadLimit

UNREAD_BYTES_MAX = 256 * 1024
"""At most so many bytes of an old part of the log are read and checked before they are sent."""


class BelowConfirmed(StoreDamaged):
    """A cut below the own confirm offset, which only an operator may order (INV-15)."""


class RawLogReader:
    """Reads raw bytes of the log for replicas that copy it."""

    def __init__(
        self, files: StoreFiles, pointers: Pointers, read_check: ReadCheck, memory: LogMemory
    ) -> None:
        self._log = files.log
        self._memory = memory
        self._pointers = pointers
        self._check = read_check

    def slice(self, offset: int, size: int) -> memoryview:
        """Return up to `size` bytes of one file from log offset `offset`.

        Empty at the log's end, and where the log is damaged.
        """
        found = self._span(offset)
        if found is None:
            return memoryview(b"")
        file, at, room = found
        size = min(size, room)
        self._memory.need(offset, size)
        size = self._sound_bytes(offset, size)
        return file.view()[at : at + size] if size else memoryview(b"")

    def unchecked(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes of one file from log offset `offset`, also damaged ones.

        Raises `DiskFailed` if the device cannot read them.
        """
        found = self._span(offset)
        if found is None:
            return b""
        file, at, room = found
        size = min(size, room)
        self._memory.need(offset, size)
        return file.read(at, size)

    def file_of(self, offset: int) -> tuple[File, int, int] | None:
        """Return (file, position in it, bytes that may be sent from there) for `os.sendfile`.

        Call again after each await: retention may close the file in between.
        """
        found = self._span(offset)
        if found is None:
            return None
        file, at, room = found
        if offset < self._check.fresh:
            room = min(room, UNREAD_BYTES_MAX)
        room = self._sound_bytes(offset, room)
        return (file, at, room) if room else None

    def _sound_bytes(self, offset: int, size: int) -> int:
        """Return how many of the `size` bytes from `offset` on are before known damage."""
        damage = self._check.fault_in(offset, size)
        return size if damage is None else max(0, damage.start - offset)

    def _span(self, offset: int) -> tuple[File, int, int] | None:
        segment = self._log.find(offset)
        end = self._log.committed
        if segment is None or not self._pointers.start <= offset < end:
            return None
        return segment.file, offset - segment.start, min(segment.end, end) - offset


class ReplicaLog:
    """Changes the log for replication: appends a master's bytes, cuts the log, restarts it."""

    def __init__(
        self,
        files: StoreFiles,
        pointers: Pointers,
        gate: Gate,
        chores: Chores,
        flusher: Flusher,
        read_limit: ReadLimit,
        follower: Follower,
        truncation: Truncation,
        read_check: ReadCheck,
        sinks: SinkMemory,
        safeguards: Safeguards,
        on_failure: Callable[[Exception], None],
    ) -> None:
        """`on_failure` is called if a write of the log failed, before the error is raised."""
        self._disk = files.disk
        self._log = files.log
        self._queues = files.queues
        self._checkpoint = files.checkpoint
        self._checksums = files.checksums
        self._pointers = pointers
        self._gate = gate
        self._chores = chores
        self._flusher = flusher
        self._read_limit = read_limit
        self._follower = follower
        self._truncation = truncation
        self._check = read_check
        self._sinks = sinks
        self._offsets_from_whole_log = safeguards.queue_offsets_from_whole_log
        self._on_failure = on_failure

    def recover_confirmed(self, recovered: Recovered) -> int:
        """Return the confirm offset after recovery: not more than the checkpoint's.

        See rocketmq#6609 and #6703. The checkpoint is written and synced, and `recovered` gets the
        number of confirmed bytes that are missing.
        """
        end = self._log.end
        told = self._checkpoint.confirmed
        recovered.lost_confirmed = max(0, told - end)
        confirmed = max(self._log.start, min(told, end))
        self._read_limit.start_at(confirmed)
        self._checkpoint.confirmed = confirmed
        self._checkpoint.write()
        self._checkpoint.sync()  # readers see these messages after the next crash too
        return confirmed

    # A follower's log -------------------------------------------------------------------------

    def _follow(self) -> None:
        check(not self._gate.held, "nothing is written while the log is cut")
        if self._gate.fenced is not None:
            raise StoreDamaged(f"the store is fenced: {self._gate.fenced}")
        if not self._follower.active:
            self._follower.begin()
            self._gate.follow(True)

    def raw_space(self, limit: int) -> memoryview:
        """Return a writable window of up to `limit` bytes for the bytes at `pointers.appended`.

        The window never crosses a file. It is valid until the next call of any method; see
        `raw_written`.
        """
        try:
            self._follow()
            return self._follower.space(limit)
        except EnvironmentFault as error:
            self._on_failure(error)
            raise

    def raw_written(self, count: int, wall: int = 0) -> None:
        """Append the window's first `count` bytes to the log; they may end inside a record.

        Complete records are checked and derived, and shown as far as `limit_confirm` allows. Raises
        `DamagedStream`, a `PeerError`, if a record is bad: the caller must run `cutting_tail`
        before more bytes come.
        """
        del wall  # store times come with the records
        pointers = self._pointers
        try:
            touched = self._follower.written(count)
        except DamagedStream:
            pointers.appended = self._log.end
            self._read_limit.hold(self._follower.touched)
            raise
        except EnvironmentFault as error:
            self._on_failure(error)
            raise
        pointers.appended = self._log.end
        self._read_limit.hold(touched)

    def append_raw(self, offset: int, data: Buffer, wall: int = 0) -> None:
        """Append all of `data` like `raw_space` and `raw_written`, at log offset `offset`.

        Raises `PeerError` if the log does not end at `offset`.
        """
        if offset != self._pointers.appended:
            raise PeerError(f"bytes for {offset} came, the log ends at {self._pointers.appended}")
        left = memoryview(data)
        while left:
            window = self.raw_space(len(left))
            count = min(len(window), len(left))
            window[:count] = left[:count]
            self.raw_written(count, wall)
            left = left[count:]

    def seal_tail(self) -> int:
        """Stop following, so that appends are possible: cut an incomplete record; return the log
        end.

        Queue offsets are those of the whole log, whatever is confirmed (rocketmq#7689).
        """
        check(not self._gate.held, "no role changes while the log is cut")
        if self._follower.active:
            run_steps(self.cutting_tail("incomplete record"))
            self._follower.active = False
            self._gate.follow(False)
        if not self._offsets_from_whole_log:
            for queue in self._queues.all():
                for path in queue.truncate(self._pointers.confirmed):
                    self._disk.remove(path)
        return self._log.end

    # Cutting ----------------------------------------------------------------------------------

    def cutting_tail(self, reason: str) -> Steps:
        """Cut what follows the last complete record; yields steps like `cutting`."""
        if self._follower.active and self._follower.whole_end() < self._log.end:
            yield from self._cut(self._follower.whole_end(), reason, ())

    def truncate(
        self,
        offset: int,
        reason: str,
        *,
        operator: bool = False,
        epochs: Sequence[EpochEntry] = (),
    ) -> CutTail:
        """Cut the log to `offset` now, like `cutting`; return what was cut."""
        if offset >= self._pointers.appended:
            return CutTail(self._pointers.appended, 0, reason)
        cut: list[CutTail] = []
        run_steps(self.cutting(offset, reason, operator=operator, epochs=epochs, done=cut.append))
        return cut[0]

    def cutting(
        self,
        offset: int,
        reason: str,
        *,
        operator: bool = False,
        epochs: Sequence[EpochEntry] = (),
        done: Callable[[CutTail], None] = lambda _cut: None,
    ) -> Steps:
        """Cut the log to `offset`, durably after the last step; the caller then cuts the epochs.

        Raises `BelowConfirmed` for a cut below the confirm offset without `operator`, `PeerError`
        if no record begins at `offset`. The caller must run the steps to the end, or to an error;
        the store is `held` until then.
        """
        pointers = self._pointers
        if offset >= pointers.appended:
            return
        if offset < pointers.confirmed and not operator:
            raise BelowConfirmed(
                f"refused to cut the log to {offset}, below the confirmed {pointers.confirmed}"
                f" ({reason}); an operator must decide which replica is right"
            )
        if offset < pointers.start:
            raise PeerError(f"cannot cut the log to {offset}: it starts at {pointers.start}")
        if offset < self._follower.whole_end() and not self._truncation.begins_record(offset):
            raise PeerError(f"cannot cut the log to {offset}: no record begins there ({reason})")
        yield from self._cut(offset, reason, epochs, done)

    def _cut(
        self,
        offset: int,
        reason: str,
        epochs: Sequence[EpochEntry],
        done: Callable[[CutTail], None] = lambda _cut: None,
    ) -> Steps:
        check(not self._gate.held, "one cut at a time")
        steps = self._truncation.steps(
            offset, reason, epochs, self._follower.whole_end(), self._read_limit.hide
        )
        confirmed = self._pointers.confirmed
        self._hold_still(True)
        try:
            cut = yield from steps
        except EnvironmentFault as error:
            self._hold_still(False)
            self._on_failure(error)
            self._show_again(confirmed)
            raise
        self._hold_still(False)
        self._read_limit.cut(offset)
        self._follower.cut(offset)
        self._check.cut(offset)
        if self._sinks.cut(offset):
            remove_snapshot(self._disk)
        self._pointers.check_order()
        done(cut)

    def _hold_still(self, held: bool) -> None:
        self._chores.paused = held
        self._gate.hold(held)

    def _show_again(self, confirmed: int) -> None:
        """Restore the confirm offset after a cut that failed and changed nothing."""
        if self._gate.fenced is None:
            self._pointers.confirmed = confirmed
            self._read_limit.advance()

    def reset_to(self, offset: int, *, operator: bool = False) -> None:
        """Let the log begin at `offset` now, like `resetting`."""
        run_steps(self.resetting(offset, operator=operator))

    def resetting(self, offset: int, *, operator: bool = False) -> Steps:
        """Let an empty log begin at `offset`, the start of one of the master's files.

        With `operator`, a log that is not empty is discarded first; its bytes are kept in `cut/`.
        Run the steps like those of `cutting`.
        """
        pointers = self._pointers
        if offset % self._log.file_bytes:
            raise PeerError(f"a log cannot start at {offset}, no multiple of its file size")
        if pointers.appended > pointers.start:
            if not operator:
                raise UsageError("refused to give up a log that is not empty")
            yield from self._cut(pointers.start, f"given up, to start again at {offset}", ())
        check(not self._gate.held, "one cut at a time")
        self._hold_still(True)
        try:
            take_back, restart = (
                self._checksums.restart_step(offset),
                self._log.restart_step(offset),
            )

            def step() -> None:
                take_back()
                restart()

            yield step
            self._log.restarted(offset)
            self._check.restart(offset)
            self._queues.reset_all()
            for name in ("start", "dispatched", "confirmed", "appended", "synced"):
                setattr(pointers, name, offset)
            self._read_limit.clear()
            self._sinks.restart(offset)
            remove_snapshot(self._disk)
            self._follower.begin()
            self._checkpoint.confirmed = offset
            self._flusher.whole_synced = offset
            self._checkpoint.claim(offset, offset)
            self._checkpoint.write()
        except EnvironmentFault as error:
            self._hold_still(False)
            self._on_failure(error)
            raise
        self._hold_still(False)
