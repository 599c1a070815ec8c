"""Decodes a follower's next records in one native call: checks, units by queue, index keys.

The native code stops before a record that is incomplete, not sound or not ordinary, and does not
say why.
"""

import ctypes
from collections.abc import Callable
from functools import lru_cache
from struct import Struct

import msgspec

from epochmq.native import library
from epochmq.native.library import Library
from epochmq.native.memory import BufferAddress, NativeMemory
from epochmq.native.native_index import KEY_BYTES, PackedKeys, place_of
from epochmq.store.draft import UNIT_BYTES

RECORDS_MAX = 8192
"""Limit of records per call."""

_GROUPS_MAX = 512
_KEYS_MAX = 2 * RECORDS_MAX
_GROUP = Struct("=7q")
_POINTER, _I64 = ctypes.c_void_p, ctypes.c_int64


class RecordsArgs(ctypes.Structure):
    """`records` of record_scan.c."""

    _fields_ = [
        ("bytes", _POINTER), *((name, _I64) for name in ("at", "limit", "start", "crc")),
        ("loose", _POINTER), ("of", _POINTER), ("units", _POINTER), ("count_max", _I64),
        ("groups", _POINTER), ("groups_max", _I64), ("keys", _POINTER), ("keys_max", _I64),
        *((name, _I64) for name in ("end", "units_count", "groups_count", "keys_count")),
    ]  # fmt: skip


class HeadsArgs(ctypes.Structure):
    """`heads` of record_scan.c."""

    _fields_ = [("bytes", _POINTER), *((name, _I64) for name in ("at", "limit", "wall"))]


MIRRORED = {
    "records": ctypes.sizeof(RecordsArgs),
    "heads": ctypes.sizeof(HeadsArgs),
    "group": _GROUP.size,
}
"""Structures that are also defined in C."""


class UnitRun(msgspec.Struct, gc=False):
    """Units of one queue with consecutive queue offsets from `first` on."""

    topic: bytes
    queue_id: int
    first: int
    count: int
    units: bytes
    offset: int
    """Log offset of the first record."""


class AppendedRecords(msgspec.Struct, gc=False):
    """The records that the native code decoded."""

    count: int
    end: int
    """Log offset of the end of the last record."""
    groups: list[UnitRun]
    """One run per queue, in the order in which the queues appeared."""
    keys: PackedKeys | None


class NativeRecords:
    """The native call and its output buffers."""

    def __init__(self, library: Library, *, index: bool, crc: bool) -> None:
        library.check_sizes(MIRRORED)
        self._records, self._heads = library.records, library.heads
        loose, units = (
            NativeMemory(UNIT_BYTES * RECORDS_MAX),
            NativeMemory(UNIT_BYTES * RECORDS_MAX),
        )
        of, groups = NativeMemory(2 * RECORDS_MAX), NativeMemory(_GROUP.size * _GROUPS_MAX)
        keys = NativeMemory(KEY_BYTES * _KEYS_MAX)
        self._memories = (loose, of)
        self._views = (units.view, groups.view, keys.view)
        self._args = RecordsArgs(
            crc=crc,
            loose=loose.address,
            of=of.address,
            units=units.address,
            groups=groups.address,
            groups_max=_GROUPS_MAX,
            keys=keys.address,
            keys_max=_KEYS_MAX if index else 0,
        )
        self._head_args = HeadsArgs()

    def decode(
        self,
        view: memoryview,
        start: int,
        at: int,
        limit: int,
        most: int = RECORDS_MAX,
        address: int | None = None,
    ) -> AppendedRecords | None:
        """Decode at most `most` ordinary records of `view` from position `at`, complete below
        `limit`.

        `view` begins at log offset `start`, and is at `address` if the caller knows it. Returns
        None if the first record is not decoded.
        """
        args = self._args
        args.count_max = most
        args.at, args.limit, args.start = at, min(limit, len(view)), start
        if not (count := self._call(self._records, args, view, address)):
            return None
        units, groups, keys = self._views
        rows = _GROUP.iter_unpack(groups[: args.groups_count * _GROUP.size])
        packed = None
        if args.keys_count:
            data = bytes(keys[: args.keys_count * KEY_BYTES])
            offset, wall = place_of(data, 0)
            packed = PackedKeys(data, offset, start + args.end, wall)
        return AppendedRecords(
            count,
            start + args.end,
            [
                UnitRun(
                    bytes(view[topic : topic + size]),
                    queue_id,
                    first,
                    number,
                    bytes(units[units_at : units_at + number * UNIT_BYTES]),
                    offset,
                )
                for topic, size, queue_id, first, number, units_at, offset in rows
            ],
            packed,
        )

    def newest(
        self, view: memoryview, at: int, limit: int, wall: int, address: int | None = None
    ) -> tuple[int, int]:
        """Return (where it stopped, the newest store time in ms) of the heads from `at` on.

        It stops where store times go back by much, or where there is no record.
        """
        args = self._head_args
        args.at, args.limit, args.wall = at, min(limit, len(view)), wall
        self._call(self._heads, args, view, address)
        return args.at, args.wall

    @staticmethod
    def _call(
        function: Callable[[int], int],
        args: RecordsArgs | HeadsArgs,
        view: memoryview,
        address: int | None,
    ) -> int:
        if address is not None:
            args.bytes = address
            return function(ctypes.addressof(args))
        with BufferAddress(view) as args.bytes:
            return function(ctypes.addressof(args))


# Guard ---------------------------------------------------------------------------------------
# Maps of files whose pages may turn out to be unreadable: zeros and a count, and not SIGBUS.
#
# One for the process, as its signals are. Without the native code such a page ends the process.


class Guard:
    """Guards mappings against SIGBUS, and counts their pages that could not be read."""

    def __init__(self, native: library.Library) -> None:
        self._native = native
        self._memory = NativeMemory(ctypes.sizeof(ctypes.c_int64))
        self._count = self._memory.view.cast("q")
        self.works = bool(native.guard_begin(self._memory.address))

    @property
    def faults(self) -> int:
        """Number of pages that could not be read so far; they read as zeros since."""
        return self._count[0]

    def add(self, view: memoryview) -> int:
        """Guard the mapping behind `view`; return the argument for `remove`, 0 if not guarded."""
        with BufferAddress(view) as address:
            found = self.works and self._native.guard_add(address, len(view))
        return address if found else 0

    def remove(self, address: int) -> None:
        """Stop guarding a mapping, before it is unmapped."""
        if address:
            self._native.guard_remove(address)


@lru_cache(maxsize=1)
def guard() -> Guard | None:
    """Return the process's guard; None without the native code."""
    native = library.library()
    return None if native is None else Guard(native)
