"""One index file: a hash index with header, slots and items (420,000,040 sparse bytes).

Items are appended at the end and written through. The slots of the file being filled are in memory
and are written in whole 4 KiB pages; the header is written last. So everything that the header
counts is complete on the device, whenever a crash happens (see the order in `IndexSync`).
"""

import logging
from array import array
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from struct import Struct
from sys import byteorder

from epochmq.base.errors import StoreDamaged
from epochmq.base.ports import Disk, File
from epochmq.native import library
from epochmq.native.native_index import KEY_BYTES, IndexPut, place_of, unpack_keys
from epochmq.store.index_checksums import IndexDamaged, PageChecksums, checksums_path

_log = logging.getLogger(__name__)

HEADER = Struct(">4q2i")
"""First and last store ms, first and last log offset, used slots, next item number."""

SET_BACK_MS = 3_600_000
"""Store times increase unless a wall clock was set back; searches allow for this many ms."""

ITEM = Struct(">iqii")
"""Key hash, log offset, seconds since the file's first message, previous item of the slot."""

_PAGE_SLOTS = 1024
SECONDS_MAX = 0x7FFFFFFF

OTHER_ITEM = -1
"""What `walk` yields for an item that is not asked for."""

BROKEN_CHAIN = -2
"""What `walk` yields last if it could not follow a chain to its end."""

_YEAR_9999_MS = 253_370_000_000_000


def positive(value: int) -> int:
    """Return abs() of Java's 32-bit hash, given unsigned; 0 for the smallest number, as in Java."""
    if value & 0x80000000:
        value = 0x100000000 - value
    return value if value < 0x80000000 else 0


def file_bytes(slots: int, items: int) -> int:
    return HEADER.size + slots * 4 + items * ITEM.size


def file_name(wall: int) -> str:
    """Return the creation time in the local zone, `yyyyMMddHHmmssSSS`."""
    wall = min(max(wall, 0), _YEAR_9999_MS)  # a record from a broken clock must not stop recovery
    made = datetime.fromtimestamp(wall / 1000)
    return f"{made:%Y%m%d%H%M%S}{wall % 1000:03d}"


class IndexFile:
    """One index file; `count` is the number of the next item, and item 0 is never used."""

    def __init__(self, disk: Disk, path: str, slots: int, items: int, *, create: bool) -> None:
        size = file_bytes(slots, items)
        if not create and disk.size(path) != size:
            raise StoreDamaged(
                f"{path} has {disk.size(path)} bytes, but maxHashSlotNum and maxIndexNum ask for"
                f" {size}; set them as they were, or delete the directory (it can be rebuilt)"
            )
        self.path = path
        self._disk = disk
        self._is_reported = False
        """Whether damage was logged."""
        self._checksums: PageChecksums | None = None
        if create:
            disk.remove(checksums_path(path))  # of a file with this name that was deleted
        else:
            self._checksums = PageChecksums.read(disk, checksums_path(path))
        self.closed = False
        self.count: int
        self.slots_max = slots
        self.items_max = items
        self.file: File = disk.open(path, create_size=size if create else None)
        (
            self.first_wall_ms,
            self.last_wall_ms,
            self.first_offset,
            self.last_offset,
            self.slots_used,
            self.count,
        ) = HEADER.unpack(self.file.read(0, HEADER.size))
        if not 1 <= self.count <= items:
            self.count = 1
        self._items_at = HEADER.size + slots * 4
        self._slots: memoryview | None = None
        self._dirty = bytearray(-(-slots // _PAGE_SLOTS))
        self._new = bytearray()
        self._written = self.count

    @property
    def full(self) -> bool:
        return self.count >= self.items_max

    def check_start(self, *, clean: bool) -> None:
        """Check what is used without a further check: the header, and the slots and the last items
        of a file that is filled on. Other pages are checked when they are read.

        After a crash (`clean` is False) only the checksums of a full file are valid. Raises
        `IndexDamaged`.
        """
        sums = self._checksums
        used = self._items_at + self.count * ITEM.size
        if sums is None or not (clean or (self.full and sums.end == used)):
            self._checksums = None
            return
        sums.check(self.file, 0, HEADER.size if self.full else self._items_at)
        if sums.end != used:
            raise IndexDamaged(f"{self.path} has {used} bytes in use, but {sums.end} checksums")
        if not self.full:
            sums.check(self.file, used - 1, used)

    def write_checksums(self) -> None:
        """Write the checksums of all that was written; this reads it, and may block."""
        sums = PageChecksums.of(self.file, self._items_at + self.count * ITEM.size)
        sums.write(self._disk, checksums_path(self.path))
        if self.full:
            self._checksums = sums

    def _read(self, position: int, size: int) -> bytes:
        """Read bytes of the file; raises `IndexDamaged`."""
        if self._checksums is not None:
            self._checksums.check(self.file, position, position + size)
        return self.file.read(position, size)

    def _load(self) -> memoryview:
        """Load the slots into memory, in the machine's byte order."""
        raw = bytearray(self.slots_max * 4)
        if self.count > 1:
            raw[:] = _as_stored(bytes(self.file.view()[HEADER.size : self._items_at]))
        self._slots = memoryview(raw).cast("i")
        return self._slots

    def put(self, hashes: Sequence[int], places: Sequence[tuple[int, int]], at: int = 0) -> int:
        """Add keys from number `at` on while there is room; return the number of the next key.

        `hashes` are unsigned 32-bit hashes, `places` the (log offset, store ms) of their messages.
        """
        slots = self._slots or self._load()
        slots_max, dirty, pack = self.slots_max, self._dirty, ITEM.pack
        count, used = self.count, self.slots_used
        stop = min(len(hashes), at + self.items_max - count)
        if count == 1 and at < stop:
            self.first_offset, self.first_wall_ms = places[at]
        first_wall, wall_before, seconds = self.first_wall_ms, -1, 0
        items: list[bytes] = []
        for number in range(at, stop):
            offset, wall = places[number]
            if wall != wall_before:
                wall_before = wall
                seconds = min(max((wall - first_wall) // 1000, 0), SECONDS_MAX)
            key_hash = hashes[number]
            if key_hash & 0x80000000:
                key_hash = positive(key_hash)
            slot = key_hash % slots_max
            previous = slots[slot]
            if not 0 < previous < count:
                previous = 0
                used += 1
            items.append(pack(key_hash, offset, seconds, previous))
            slots[slot] = count
            dirty[slot // _PAGE_SLOTS] = 1
            count += 1
        if items:
            self._new += b"".join(items)
            self.count, self.slots_used = count, used
            self.last_offset, self.last_wall_ms = places[stop - 1]
        return stop

    def put_packed(self, data: bytes) -> int:
        """Add keys hashed by the native code while there is room; return how many bytes were
        used.
        """
        taken = data[: (self.items_max - self.count) * KEY_BYTES]
        if not taken:
            return 0
        if (native := library.library()) is None:
            hashes, places = unpack_keys(taken)
            self.put(hashes, places)
            return len(taken)
        slots = self._slots or self._load()
        first, last = place_of(taken, 0), place_of(taken, len(taken) - KEY_BYTES)
        if self.count == 1:
            self.first_offset, self.first_wall_ms = first
        put = IndexPut(taken, slots, self._dirty, self.count, self.first_wall_ms)
        self._new += put.run(native)
        self.slots_used += put.used
        self.count += len(taken) // KEY_BYTES
        self.last_offset, self.last_wall_ms = last
        return len(taken)

    def write_items(self) -> None:
        """Write new items to the file."""
        if self._new:
            self.file.write(self._items_at + self._written * ITEM.size, self._new)
            self._new = bytearray()
            self._written = self.count

    def sync_steps(self) -> "IndexSync":
        """Write new items; return the step that makes all durable, possibly outside the loop."""
        self.write_items()
        pages = [page for page, dirty in enumerate(self._dirty) if dirty]
        self._dirty = bytearray(len(self._dirty))
        header = HEADER.pack(
            self.first_wall_ms,
            self.last_wall_ms,
            self.first_offset,
            self.last_offset,
            self.slots_used,
            self.count,
        )
        finish = self.write_checksums if self.full else _nothing
        return IndexSync(self.file, self._page_runs(pages), header, self.last_wall_ms, finish)

    def _page_runs(self, pages: list[int]) -> list[tuple[int, bytes]]:
        """Return (position, bytes) of the dirty slots; adjacent pages are merged.

        Slots are only copied, as this runs on the loop: keys are scattered, so after ten thousand
        keys all slots are dirty, 20 MiB. Converting slots one by one in an `array` took up to 0.8
        s.
        """
        runs: list[tuple[int, bytes]] = []
        slots = self._slots
        at = 0
        while at < len(pages) and slots is not None:
            stop = at + 1
            while stop < len(pages) and pages[stop] == pages[stop - 1] + 1 and stop - at < 256:
                stop += 1
            first = pages[at] * _PAGE_SLOTS
            piece = slots[first : (pages[stop - 1] + 1) * _PAGE_SLOTS]
            runs.append((HEADER.size + first * 4, piece.tobytes()))
            at = stop
        return runs

    def mark_all_dirty(self) -> None:
        """Write all slots at the next sync, after a failed write."""
        self._dirty = bytearray(b"\1" * len(self._dirty))

    def repair_slots(self) -> None:
        """After a crash, point slots beyond the header's count back to counted items."""
        slots = self._load()
        count = self.count
        if max(slots) < count:
            return
        for slot, item in enumerate(slots):
            if item >= count:
                while item >= count:
                    before = self.item(item)[3] if item < self.items_max else 0
                    item = before if before < item else 0
                slots[slot] = max(item, 0)
                self._dirty[slot // _PAGE_SLOTS] = 1

    def item(self, number: int) -> tuple[int, int, int, int]:
        """Return item `number`: key hash, log offset, seconds, previous item of its slot.

        Raises `IndexDamaged`.
        """
        if self._written <= number < self.count:
            return ITEM.unpack_from(self._new, (number - self._written) * ITEM.size)
        return ITEM.unpack(self._read(self._items_at + number * ITEM.size, ITEM.size))

    def walk(self, key_hash: int, begin: int, end: int) -> Iterator[int]:
        """Yield the log offsets of items with this hash and time (ms), newest first, and
        `OTHER_ITEM` for others.

        It yields once per item, so that the caller may stop or pause: a chain may have millions of
        items. It ends at items older than `begin`. It yields `BROKEN_CHAIN` and ends if the file
        was closed meanwhile, or is damaged: it has other bytes than were written, or an item that
        cannot belong to the chain.
        """
        if self.closed:
            yield BROKEN_CHAIN
            return
        try:
            yield from self._walk(key_hash, begin, end)
        except IndexDamaged as error:
            if not self._is_reported:
                self._is_reported = True
                _log.error(
                    "%s: searches by key may miss messages. Stop the broker, delete the directory"
                    " index, and start the broker: it builds the index from the log",
                    error,
                )
            yield BROKEN_CHAIN

    def _walk(self, key_hash: int, begin: int, end: int) -> Iterator[int]:
        slot = key_hash % self.slots_max
        if self._slots is not None:
            number = self._slots[slot]
        else:
            number = int.from_bytes(self._read(HEADER.size + slot * 4, 4), "big", signed=True)
        below, oldest = self.count, begin - SET_BACK_MS
        while number:
            if not 0 < number < below or self.closed:  # a chain only goes back
                yield BROKEN_CHAIN
                return
            below = number
            own_hash, offset, seconds, number = self.item(number)
            if own_hash < 0 or own_hash % self.slots_max != slot or offset < 0:
                yield BROKEN_CHAIN
                return
            wall = self.first_wall_ms + seconds * 1000
            if wall < oldest:
                return
            is_meant = own_hash == key_hash and begin <= wall + 999 and wall <= end
            yield offset if is_meant else OTHER_ITEM

    def release_slots(self) -> None:
        """Free the slots in memory: the file is full and synced, so they are read from the file."""
        self._slots = None

    def close(self) -> None:
        self.closed = True
        self.file.close()


class IndexSync:
    """Syncs an index file: first items, then slots, then the header that counts them.

    `finish` is called last.
    """

    def __init__(
        self,
        file: File,
        runs: list[tuple[int, bytes]],
        header: bytes,
        wall_ms: int,
        finish: Callable[[], None],
    ) -> None:
        self._file = file
        self._runs = runs
        self._header = header
        self._finish = finish
        self.wall_ms = wall_ms
        """Store time of the newest message in the file."""
        self.first: Callable[[], None] = _nothing
        """Syncs the directory if the file is new."""

    def __call__(self) -> None:
        self.first()
        self._file.sync()
        for position, data in self._runs:
            self._file.write(position, _as_stored(data))
        self._file.sync()
        self._file.write(0, self._header)
        self._file.sync()
        self._finish()


def _nothing() -> None:
    """Do nothing: the file's name is durable already, or the file is not full."""


def _as_stored(slots: bytes) -> bytes:
    """Convert slots from the machine's byte order to the file's (big-endian), or back."""
    if byteorder == "big":
        return slots
    swapped = array("i", slots)
    swapped.byteswap()
    return swapped.tobytes()
