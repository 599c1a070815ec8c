"""The file `timerwheel`: a ring of slots, each the head of one time's chain in the timer log.

The file is made, full of zeros and without blocks, by the first message that needs it.
"""

from collections.abc import Iterator, Mapping

from epochmq.base.ports import Disk, File
from epochmq.store.timer.timer_layout import (
    SLOT_BYTES,
    WHEEL_BYTES,
    TimerDamaged,
    TimerSlot,
    decode_slot,
)

FILE = "timerwheel"
_EMPTY = bytes(SLOT_BYTES)
_CHUNK_SLOTS = 2048


class Wheel:
    """Slots by tick; those of other rounds of the ring are not there."""

    def __init__(self, disk: Disk, file_bytes: int = WHEEL_BYTES) -> None:
        self._disk = disk
        self._bytes = file_bytes
        self.slots = file_bytes // SLOT_BYTES
        self._file: File | None = None

    def open(self) -> None:
        """Take an existing file; `TimerDamaged` when it has another size."""
        if not self._disk.exists(FILE):
            return
        if self._disk.size(FILE) != self._bytes:
            raise TimerDamaged(f"{FILE} has not {self._bytes} bytes")
        self._file = self._disk.open(FILE)

    def get(self, tick: int) -> TimerSlot | None:
        """The slot of `tick`; None when nothing is in it."""
        if self._file is None:
            return None
        slot = decode_slot(self._file.read(tick % self.slots * SLOT_BYTES, SLOT_BYTES))
        if slot is None or slot.tick != tick:
            return None
        if slot.length <= 0 or slot.first < 0 or slot.last < slot.first:
            raise TimerDamaged(f"the slot of tick {tick} makes no sense")
        return slot

    def put(self, slots: Mapping[int, TimerSlot | None]) -> None:
        """Write slots by tick; None empties one."""
        file = self._file
        if file is None:
            file = self._file = self._disk.open(FILE, create_size=self._bytes)
            self._disk.sync_dir("")
        for tick, slot in slots.items():
            data = _EMPTY if slot is None else slot.encode()
            file.write(tick % self.slots * SLOT_BYTES, data)

    def all(self) -> Iterator[TimerSlot]:
        """Every slot in use, of whatever round."""
        if self._file is None:
            return
        step = _CHUNK_SLOTS * SLOT_BYTES
        zeros = bytes(step)
        done = 0
        for low, high in self._file.data_ranges():
            start = max(done, low // SLOT_BYTES * SLOT_BYTES)
            done = min(-(-high // SLOT_BYTES) * SLOT_BYTES, self._bytes)
            for at in range(start, done, step):
                chunk = self._file.read(at, min(step, done - at))
                if chunk == zeros:
                    continue
                for cut in range(0, len(chunk), SLOT_BYTES):
                    slot = decode_slot(chunk[cut : cut + SLOT_BYTES])
                    if slot is not None:
                        yield slot

    @property
    def file(self) -> File | None:
        """What a sync must cover; None while there is nothing."""
        return self._file

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def reset(self) -> None:
        """Forget everything."""
        self.close()
        self._disk.remove(FILE)
