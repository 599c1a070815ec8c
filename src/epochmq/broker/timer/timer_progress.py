"""config/timercheck as the broker keeps it: a table like others, but binary."""

from collections.abc import Callable, Sequence

from epochmq.broker.timer.timed_messages import Timer
from epochmq.model.data_version import DataVersion
from epochmq.store.timer import timer_checkpoint
from epochmq.store.timer.timer_checkpoint import OlderProgress, TimerCheckpoint


class TimerProgress:
    """The checkpoint of one timer; `epoch_at` says which epoch wrote the byte before an offset of
    the commit log (-1 for none)."""

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
        """Before it is saved, if anything moved; copies are compared by it."""
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
        """What GET_TIMER_CHECK_POINT 60 answers."""
        return self.checkpoint().body() + timer_checkpoint.encode_older(self._core.older)

    def sealed(self) -> bytes:
        """The state of now, for `is_synced` once what was delivered by now is on the device."""
        return self.checkpoint().sealed(self._core.precision_ms, self._log_end())

    def is_synced(self, sealed: bytes) -> None:
        """This state stands, whatever a power cut takes; the next save says so."""
        self._synced = sealed

    def adopt(self, body: bytes) -> None:
        """What the master answered; `ValueError` when that is none."""
        found = timer_checkpoint.decode(body)
        if found is None:
            raise ValueError("not a timer checkpoint")
        end = self._log_end()
        self._core.adopt(found.last_read_ms, found.master_offset, end, self._epoch_at(end))
        self._core.adopt_older(timer_checkpoint.decode_older(body))
        version = DataVersion(found.state_version, found.counter, found.wall_ms)
        if version != self.version:  # else only an idle master's clock went on
            self.version, self.dirty = version, True

    def begin(self, found: TimerCheckpoint, older: Sequence[OlderProgress] = ()) -> None:
        """Begin where the file says."""
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
