"""Compares queue units with their records in native code."""

import ctypes
from collections.abc import Callable
from weakref import ref

from epochmq.native.library import Library
from epochmq.native.memory import BufferAddress
from epochmq.store.draft import UNIT_BYTES
from epochmq.store.segment import Segment

_POINTER, _TEXT, _I64 = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64


class UnitsArgs(ctypes.Structure):
    """`units` of record_scan.c."""

    _fields_ = [
        ("bytes", _POINTER), ("start", _I64), ("end", _I64), ("units", _TEXT), ("count", _I64),
        ("first", _I64), ("queue_id", _I64), ("topic_at", _TEXT), ("topic_size", _I64),
        *((name, _I64) for name in ("crc", "room", "size")),
    ]  # fmt: skip


NEIGHBOURS_MAX = 512
"""Limit of units examined per call."""
GATHER_SPANS_MIN, GATHER_BYTES_MAX = 4, 16 * 1024
"""So many chunks are copied into one if they have fewer bytes than this on average."""
_NEVER_SPANS = NEIGHBOURS_MAX + 1


class NeighboursArgs(ctypes.Structure):
    """`neighbours` of record_scan.c."""

    _fields_ = [
        ("bytes", _POINTER), ("start", _I64), ("end", _I64), ("units", _TEXT), ("count", _I64),
        *((name, _I64) for name in ("first", "queue_id", "room")),
        ("spans", ctypes.POINTER(_I64)),
        *((name, _I64) for name in ("spans_count", "records", "size", "passed", "changed")),
    ]  # fmt: skip


MIRRORED = {
    "units": ctypes.sizeof(UnitsArgs),
    "neighbours": ctypes.sizeof(NeighboursArgs),
}
"""Structures that are also defined in C."""


class NativeUnits:
    """The native call and its arguments."""

    def __init__(self, library: Library) -> None:
        library.check_sizes(MIRRORED)
        self._call = library.units
        self._args = UnitsArgs()

    def verify(
        self,
        segment: Segment,
        end: int,
        units: bytes,
        first: int,
        queue_id: int,
        topic: bytes,
        *,
        crc: bool,
        room: int,
    ) -> tuple[int, int]:
        """Return (how many leading `units` match their records, the records' bytes).

        Only records of `segment` that end at or below `end`; it stops behind the record that fills
        `room` bytes.
        """
        args = self._args
        args.start, args.end = segment.start, end
        args.units, args.count = units, len(units) // UNIT_BYTES
        args.first, args.queue_id = first, queue_id
        args.topic_at, args.topic_size = topic, len(topic)
        args.crc, args.room = crc, room
        with BufferAddress(segment.view) as args.bytes:
            count: int = self._call(ctypes.addressof(args))
        return count, args.size


class NativeNeighbours:
    """Finds the records of units, as spans of a view; the next call overwrites the result."""

    def __init__(self, library: Library) -> None:
        library.check_sizes(MIRRORED)
        self._call, self._answer = library.gather, library.answer_pull
        self._copied = b""
        """The records of the last call, if they were copied."""
        self._places = (_I64 * (2 * NEIGHBOURS_MAX))()
        self._flat = memoryview(self._places).cast("B").cast("q")
        """The same memory as a buffer: one call reads many numbers from it."""
        self._args = NeighboursArgs(spans=ctypes.cast(self._places, ctypes.POINTER(_I64)))
        self._at = ctypes.addressof(self._args)
        self._view: Callable[[], memoryview | None] = lambda: None
        """The view of the last call; its address does not change while it is alive."""

    def find(
        self,
        view: memoryview,
        start: int,
        units: bytes,
        first: int,
        queue_id: int,
        room: int,
        *,
        may_copy: bool = True,
    ) -> NeighboursArgs:
        """The records of up to `NEIGHBOURS_MAX` leading `units` in `view`.

        `start` is the log offset of the view, `first` the queue offset of the first unit; the
        records behind the first one have `room` bytes in all. With `may_copy` short records are
        copied, see `chunks`.
        """
        self._set_args(view, start, units, first, queue_id, room)
        spans_min = GATHER_SPANS_MIN if may_copy else _NEVER_SPANS
        self._copied = self._call(self._at, spans_min, GATHER_BYTES_MAX)
        return self._args

    def answer(
        self,
        view: memoryview,
        start: int,
        units: bytes,
        first: int,
        queue_id: int,
        room: int,
        head: int,
    ) -> bytes:
        """Return the answer to a pull with the records, whose header is made of the structure at
        address `head`.

        The other arguments are those of `find`. Empty if `find` would not find all records at once.
        """
        self._set_args(view, start, units, first, queue_id, room)
        answer: bytes = self._answer(self._at, head)
        return answer

    @property
    def found(self) -> NeighboursArgs:
        """The result of the last call."""
        return self._args

    def _set_args(
        self, view: memoryview, start: int, units: bytes, first: int, queue_id: int, room: int
    ) -> None:
        args = self._args
        if self._view() is not view:
            with BufferAddress(view) as args.bytes:
                self._view = ref(view)
            args.start, args.end = start, start + len(view)
        args.units, args.count = units, len(units) // UNIT_BYTES
        args.first, args.queue_id, args.room = first, queue_id, room

    def chunks(self, view: memoryview) -> list[memoryview]:
        """Return the records that `find` found in `view`; neighbours in the log are one chunk.

        Many short chunks are copied into one, because each would cost more than the copy.
        """
        if self._copied:
            copied, self._copied = self._copied, b""
            return [memoryview(copied)]
        count = self._args.spans_count
        if count == 1:
            return [view[self._places[0] : self._places[1]]]
        places = iter(self._flat[: 2 * count].tolist())
        return [view[low:high] for low, high in zip(places, places, strict=True)]
