"""Loads the native library and describes its calls; without it plain Python does the same work.

The library is beside this file, built by `scripts/build_native.py` (set-up and wheels run it if
there is a C compiler; the product never compiles). EPOCHMQ_TWIN=off selects plain Python. ctypes
needs no Python headers. `PyDLL` keeps the interpreter's lock, since these calls are short, and
releasing it would only let another thread take it.
"""

import ctypes
import hashlib
import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from epochmq.base.errors import OurBug
from epochmq.base.limits import BULK_READ_BYTES_MAX
from epochmq.base.ports import Buffer
from epochmq.native.memory import NativeMemory

HERE = Path(__file__).parent
LIBRARY = HERE / "_native.so"
SWITCH = "EPOCHMQ_TWIN"

_POINTER, _TEXT, _I64 = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64


class BatchArgs(ctypes.Structure):
    """`batch` of append_batch.c; each span is two fields here, because these are faster to set."""

    _fields_ = [
        *((name, kind)
          for part in ("body", "head", "name", "tail", "tail_key", "key", "host")
          for name, kind in ((f"{part}_at", _TEXT), (f"{part}_size", _I64))),
        *((name, _I64) for name in (
            "prefix", "offset", "queue_offset", "wall", "room", "record_max")),
        ("out", _POINTER), ("out_max", _I64),
        ("units", _POINTER), ("count_max", _I64),
        ("keys", _POINTER), ("keys_max", _I64),
        ("ids", _POINTER), ("ids_max", _I64),
        *((name, _I64) for name in ("out_size", "keys_count", "ids_size", "marked")),
        ("sink_at", _POINTER),
        *((name, _I64) for name in ("sink_size", "sink_batch", "sink_part", "sink_seq")),
    ]  # fmt: skip


class IndexArgs(ctypes.Structure):
    """`index_put` of index.c."""

    _fields_ = [
        ("keys", _TEXT), ("count", _I64), ("slots", _POINTER), ("slots_max", _I64),
        ("dirty", _POINTER), ("number", _I64), ("first_wall", _I64), ("items", _POINTER),
        ("used", _I64),
    ]  # fmt: skip


class SendArgs(ctypes.Structure):
    """The first fields of `send_turn` of send_turn.h; the others are private to C."""

    _fields_ = [
        *((name, kind)
          for part in ("tail", "host", "id", "middle", "end")
          for name, kind in ((f"{part}_at", _TEXT), (f"{part}_size", _I64))),
        *((name, _I64) for name in (
            "header_max", "body_max", "record_max", "allowed", "wall", "delay_max", "precision")),
        ("out", _POINTER), ("out_max", _I64),
        ("singles", _POINTER), ("singles_max", _I64),
        ("keys", _POINTER), ("keys_max", _I64),
        ("slots", _POINTER), ("slots_max", _I64),
        ("touched", _POINTER), ("counted", _POINTER), ("sizes", _POINTER), ("units", _POINTER),
        ("answers", _POINTER), ("answers_max", _I64),
        ("ends", _POINTER),
        ("endings", _POINTER), ("endings_max", _I64),
        ("texts", _POINTER), ("texts_max", _I64),
        *((name, _I64) for name in (
            "out_size", "count", "keys_count", "touched_count", "reads", "endings_count",
            "texts_size", "counted_count")),
    ]  # fmt: skip


class RemakeArgs(ctypes.Structure):
    """`remake` of rebuild_messages.c."""

    _fields_ = [
        ("send_turn", _POINTER), ("log", _POINTER), ("start", _I64), ("end", _I64),
        ("sources", _POINTER), ("count", _I64), ("kind", _I64), ("wall", _I64),
        ("endings", _POINTER), ("texts", _POINTER),
    ]  # fmt: skip


class WaitsArgs(ctypes.Structure):
    """`waits` of timer_waits.c."""

    _fields_ = [
        ("log", _POINTER), ("start", _I64), ("end", _I64),
        ("sources", _POINTER), ("count", _I64), ("out", _POINTER),
    ]  # fmt: skip


class Library:
    """The calls of the loaded library, with types."""

    def __init__(self, path: Path) -> None:
        lib = ctypes.PyDLL(str(path))
        lib.epq_source.restype = _TEXT
        self.source: str = lib.epq_source().decode()
        self.batch = lib.epq_batch
        self.batch.argtypes, self.batch.restype = [_POINTER], _I64
        self.index_put = lib.epq_index_put
        self.index_put.argtypes, self.index_put.restype = [_POINTER], None
        self.stage_sends = lib.epq_stage_sends
        self.stage_sends.argtypes = [_POINTER, _POINTER, _I64, _TEXT, _POINTER]
        self.stage_sends.restype = _I64
        self.access_bytes = lib.epq_access_bytes
        self.access_bytes.argtypes, self.access_bytes.restype = [_I64], _I64
        self.access_clear = lib.epq_access_clear
        self.access_clear.argtypes, self.access_clear.restype = [_POINTER], None
        self.access_add_signer = lib.epq_access_add_signer
        self.access_add_signer.argtypes = [_POINTER, _TEXT, _TEXT]
        self.access_add_signer.restype = _I64
        self.access_grant = lib.epq_access_grant
        self.access_grant.argtypes = [_POINTER, _I64, _TEXT, _I64]
        self.access_grant.restype = _I64
        self.finish = lib.epq_finish
        self.finish.argtypes, self.finish.restype = [_POINTER, _I64, _I64], _I64
        self.clear = lib.epq_clear
        self.clear.argtypes, self.clear.restype = [_POINTER], None
        self.send_topics_clear = lib.epq_send_topics_clear
        self.send_topics_clear.argtypes, self.send_topics_clear.restype = [_POINTER], None
        self.send_topic_add = lib.epq_send_topic_add
        self.send_topic_add.argtypes = [_POINTER, _TEXT, *[_I64] * 6]
        self.send_topic_add.restype = _I64
        self.send_turn_bytes = lib.epq_send_turn_bytes
        self.send_turn_bytes.argtypes, self.send_turn_bytes.restype = [], _I64
        self.remake = lib.epq_remake
        self.remake.argtypes, self.remake.restype = [_POINTER], _I64
        self.waits = lib.epq_waits
        self.waits.argtypes, self.waits.restype = [_POINTER], _I64
        self.records, self.heads = lib.epq_records, lib.epq_heads
        self.records.argtypes, self.records.restype = [_POINTER], _I64
        self.heads.argtypes, self.heads.restype = [_POINTER], None
        self.units = lib.epq_units
        self.units.argtypes, self.units.restype = [_POINTER], _I64
        self.gather = lib.epq_gather
        self.gather.argtypes, self.gather.restype = [_POINTER, _I64, _I64], ctypes.py_object
        self.answer_pull = lib.epq_answer_pull
        self.answer_pull.argtypes = [_POINTER, _POINTER]
        self.answer_pull.restype = ctypes.py_object
        self.read_pull = lib.epq_read_pull
        self.read_pull.argtypes = [_POINTER, _POINTER, _I64]
        self.read_pull.restype = _I64
        self.whole = lib.epq_whole
        self.whole.argtypes, self.whole.restype = [_POINTER], _I64
        self.bare = lib.epq_bare
        self.bare.argtypes, self.bare.restype = [_TEXT, _I64, _POINTER], _I64
        self.bodies = lib.epq_bodies
        self.bodies.argtypes, self.bodies.restype = [_POINTER, _I64], _I64
        self.messages = lib.epq_messages
        self.messages.argtypes = [ctypes.py_object] * 3 + [_POINTER]
        self.messages.restype = ctypes.py_object
        self.guard_begin = lib.epq_guard_begin
        self.guard_begin.argtypes, self.guard_begin.restype = [_POINTER], _I64
        self.guard_add, self.guard_remove = lib.epq_guard_add, lib.epq_guard_remove
        self.guard_add.argtypes, self.guard_add.restype = [_POINTER, _I64], _I64
        self.guard_remove.argtypes, self.guard_remove.restype = [_POINTER], None
        self.crc = lib.epq_crc
        self.crc.argtypes, self.crc.restype = [_TEXT, _I64], ctypes.c_uint32
        lib.epq_init()
        self._lib = lib

    def size_of(self, structure: str) -> int:
        """Return the size of `structure` in C (`MIRRORED` in native.h); 0 if C does not export
        it.
        """
        try:
            return ctypes.c_int64.in_dll(self._lib, f"epq_sizeof_{structure}").value
        except ValueError:
            return 0

    def check_sizes(self, mirrored: Mapping[str, int]) -> None:
        """Raise `OurBug` if a structure has another size in C, since calls would corrupt memory."""
        for structure, size in mirrored.items():
            if (found := self.size_of(structure)) != size:
                raise OurBug(
                    f"the native code has {found} bytes for `{structure}`, Python has {size}:"
                    " change both sides, then run scripts/build_native.py"
                )


MIRRORED = {
    "batch": ctypes.sizeof(BatchArgs),
    "index_put": ctypes.sizeof(IndexArgs),
    "send_turn_front": ctypes.sizeof(SendArgs),
    "remake": ctypes.sizeof(RemakeArgs),
    "waits": ctypes.sizeof(WaitsArgs),
}
"""Structures that this module describes."""


def sources() -> list[Path]:
    """Return the C files, in the order in which they are hashed."""
    return sorted((*HERE.glob("*.c"), *HERE.glob("*.h")))


def source_hash() -> str:
    """Return a hash of the sources; empty if they were not delivered."""
    data = b"".join(path.read_bytes() for path in sources())
    return hashlib.sha256(data).hexdigest() if data else ""


@lru_cache(maxsize=1)
def find() -> tuple[Library | None, str]:
    """Return (the library or None, which code is used and why)."""
    if os.environ.get(SWITCH, "").lower() == "off":
        return None, f"python ({SWITCH}=off)"
    if not LIBRARY.exists():
        return None, "python (no native code was built)"
    try:
        library = Library(LIBRARY)
    except (OSError, AttributeError) as error:
        return None, f"python (the native code cannot be loaded: {error})"
    if library.source != (source_hash() or library.source):
        return None, "python (the native code is older than its source; build it again)"
    library.check_sizes(MIRRORED)
    return library, "compiled"


def library() -> Library | None:
    """Return the native library; None if plain Python is used."""
    return find()[0]


def which() -> str:
    """Return `compiled`, or `python` with the reason, as text for users."""
    return find()[1]


# Bare ----------------------------------------------------------------------------------------
# Records without their bodies: a reader of keys or offsets need not be sent the rest.


class Bare:
    """Removes the bodies from whole records, in memory that is used again by each call."""

    def __init__(self, library: Library) -> None:
        self._call = library.bare
        self._memory = NativeMemory(BULK_READ_BYTES_MAX)

    def of(self, chunks: Iterable[Buffer]) -> bytes:
        """Return all chunks' records without bodies, with their sizes and body sizes changed.

        Unchanged are batches stored as one record, everything behind bytes that are not a record,
        and data larger than a bulk read.
        """
        data = b"".join(chunks)
        if len(data) > len(self._memory.view):
            return data
        size = self._call(data, len(data), self._memory.address)
        return bytes(self._memory.view[:size])
