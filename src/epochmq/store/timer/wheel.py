"""The timer wheel, file `timerwheel`: a ring of slots, each the head of a chain in the timer log.

The first message that needs the file creates it, sparse and full of zeros.
"""

from binascii import crc_hqx
from collections.abc import Iterator, Mapping
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from epochmq.base.errors import StoreDamaged
from epochmq.base.ports import Disk, File

# Timer layout --------------------------------------------------------------------------------
# Bytes of the wheel's slots and of the log's units; big-endian.
#
# Two fields that RocketMQ writes but never reads have another content here: a slot's magic is
# the CRC-32 of the 28 bytes before it; a unit's last i64 is the exact delivery time in 48 bits,
# behind a CRC-16 of the unit. If a checksum is wrong, the wheel is rebuilt from the timer topic.


SLOT = Struct(">qqqii")
SLOT_BYTES = SLOT.size
SLOTS = 7 * 86_400 * 2
"""Number of slots of a wheel: fourteen days at one second per slot."""
WHEEL_BYTES = SLOTS * SLOT_BYTES

SLOT_COUNT_MAX = 2**31 - 1
"""Maximum number of units in a slot."""

UNIT = Struct(">iqiqiqiiH6s")
UNIT_BYTES = UNIT.size
_SUM_AT = UNIT_BYTES - 8
BLANK = Struct(">iqi")
BLANK_MAGIC = 0xCBD43194 - (1 << 32)

DEFAULT, ROLL, DELETE = 1, 2, 4
"""Bits of a unit's magic: to be delivered, to be put on the wheel again (too far away), to cancel
another message.
"""
_MAGICS = (DEFAULT, DEFAULT | ROLL, DEFAULT | DELETE, DEFAULT | ROLL | DELETE)

_HEAD = Struct(">qqqi")
_LENGTHS = Struct(">qqqi4x")
"""A slot without its checksum."""
_EMPTY = bytes(SLOT_BYTES)


class TimerDamaged(StoreDamaged):
    """The timer's files contradict themselves or the log: they are rebuilt, nothing is lost."""


class TimerSlot(NamedTuple):
    """One slot of the wheel: the chain of its units in the timer log."""

    tick: int
    """Slot time divided by the precision (ms)."""
    first: int
    """Position of the oldest unit."""
    last: int
    length: int

    def encode(self) -> bytes:
        head = _HEAD.pack(*self)
        return head + crc32(head).to_bytes(4, "big")


def decode_slot(data: bytes) -> TimerSlot | None:
    """Decode a slot of 32 bytes; None if it was never used; `TimerDamaged` for a bad checksum."""
    if data == _EMPTY:
        return None
    if len(data) != SLOT_BYTES or crc32(data[:-4]).to_bytes(4, "big") != data[-4:]:
        raise TimerDamaged("a slot of the timer wheel has a wrong checksum")
    return TimerSlot(*_HEAD.unpack_from(data))


class Unit(NamedTuple):
    """One message on the wheel, as stored in the timer log."""

    previous: int
    """Position of the slot's previous unit; -1 for the first unit."""
    magic: int
    write_wall_ms: int
    delay_ms: int
    """Slot time minus write time; may be negative for a late message."""
    offset: int
    """The message's offset in the commit log."""
    size: int
    topic_hash: int
    deliver_wall_ms: int
    """Exact delivery time; the message is not delivered before it."""

    def encode(self) -> bytes:
        time = self.deliver_wall_ms.to_bytes(6, "big", signed=True)
        data = UNIT.pack(UNIT_BYTES, *self[:-1], 0, time)
        return data[:_SUM_AT] + _sum_of(data).to_bytes(2, "big") + time


def decode_unit(data: bytes) -> Unit:
    """Decode a unit of 52 bytes; raise `TimerDamaged` if it is invalid."""
    if len(data) != UNIT_BYTES:
        raise TimerDamaged("the timer log ends within a unit")
    size, *fields, found, time = UNIT.unpack(data)
    if found != _sum_of(data):
        raise TimerDamaged("a unit of the timer log has a wrong checksum")
    values = [*fields, int.from_bytes(time, "big", signed=True)]
    unit = Unit(*values)
    if size != UNIT_BYTES or unit.magic not in _MAGICS or unit.offset < 0 or unit.size <= 0:
        raise TimerDamaged("a unit of the timer log is none")
    return unit


def _sum_of(data: bytes) -> int:
    """Return the CRC-16 of a unit without the two bytes of the CRC itself."""
    return crc_hqx(data[_SUM_AT + 2 :], crc_hqx(data[:_SUM_AT], 0xFFFF))


# Wheel ---------------------------------------------------------------------------------------


FILE = "timerwheel"
_CHUNK_SLOTS = 2048


class Wheel:
    """The slots by tick; slots of other rounds of the ring count as empty."""

    def __init__(self, disk: Disk, file_bytes: int = WHEEL_BYTES) -> None:
        self._disk = disk
        self._bytes = file_bytes
        self.slots = file_bytes // SLOT_BYTES
        self._file: File | None = None

    def open(self) -> None:
        """Open an existing file; raise `TimerDamaged` if it has another size."""
        if not self._disk.exists(FILE):
            return
        if self._disk.size(FILE) != self._bytes:
            raise TimerDamaged(f"{FILE} has not {self._bytes} bytes")
        self._file = self._disk.open(FILE)

    def get(self, tick: int) -> TimerSlot | None:
        """Return the slot of `tick`; None if it is empty."""
        if self._file is None:
            return None
        slot = decode_slot(self._file.read(tick % self.slots * SLOT_BYTES, SLOT_BYTES))
        if slot is None or slot.tick != tick:
            return None
        if slot.length <= 0 or slot.first < 0 or slot.last < slot.first:
            raise TimerDamaged(f"the slot of tick {tick} makes no sense")
        return slot

    def lengths(self, first: int, ticks: int) -> Iterator[int]:
        """Yield the numbers of messages in `ticks` slots from tick `first` on, in parts.

        Each part is the sum of some slots. A slot with a wrong checksum counts as it is: the sum is
        shown, and nothing is decided by it.
        """
        if self._file is None:
            return
        tick, end = first, first + min(ticks, self.slots)
        while tick < end:
            place = tick % self.slots
            count = min(_CHUNK_SLOTS, self.slots - place, end - tick)
            chunk = self._file.read(place * SLOT_BYTES, count * SLOT_BYTES)
            found = 0
            if chunk.strip(b"\0"):
                for number, (of_tick, _, _, length) in enumerate(_LENGTHS.iter_unpack(chunk)):
                    if of_tick == tick + number:
                        found += length
            yield found
            tick += count

    def put(self, slots: Mapping[int, TimerSlot | None]) -> None:
        """Write slots by tick; None empties a slot."""
        file = self._file
        if file is None:
            file = self._file = self._disk.open(FILE, create_size=self._bytes)
            self._disk.sync_dir("")
        for tick, slot in slots.items():
            data = _EMPTY if slot is None else slot.encode()
            file.write(tick % self.slots * SLOT_BYTES, data)

    def all(self) -> Iterator[TimerSlot]:
        """Yield every slot in use, of any round."""
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
        """The file that a sync must cover; None if there is none."""
        return self._file

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def reset(self) -> None:
        """Delete the file."""
        self.close()
        self._disk.remove(FILE)
