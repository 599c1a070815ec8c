"""Reads what the timer wheel needs from records of the timer topic, by the native code."""

import ctypes
from collections.abc import Sequence
from itertools import chain
from struct import Struct
from typing import NamedTuple

from epochmq.native.library import Library, WaitsArgs
from epochmq.native.memory import BufferAddress
from epochmq.store.commit_log import CommitLog

NAMES_MAX = 10_000
_ROW = Struct("=qqqqii")
_SOURCE = Struct("=3q")
MIRRORED = {"waiting": _ROW.size, "source": _SOURCE.size}
"""Structures that are also defined in C."""


class TimedMessage(NamedTuple):
    """One message to be put on the timer wheel; it cancels no other message."""

    queue_offset: int
    store_wall_ms: int
    due_wall_ms: int
    """Due time, as `due_wall` in broker/delay/timed.py computes it."""
    topic: str
    """The message's original topic."""
    topic_hash: int
    offset: int
    size: int


class WaitsReader:
    """Reads timer messages from a store's log; caches only topic names."""

    def __init__(self, native: Library, log: CommitLog) -> None:
        native.check_sizes(MIRRORED)
        self._waits = native.waits
        self._find = log.find
        self._names: dict[bytes, str] = {}

    def read(self, units: Sequence[tuple[int, int, int]], limit: int) -> list[TimedMessage]:
        """Read the leading `units` (log offset, size, tags code) that are ordinary messages.

        They must be in one file of the log, below log offset `limit`.
        """
        segment = self._find(units[0][0])
        if segment is None:
            return []
        view = segment.view
        rows = bytearray(_ROW.size * len(units))
        sources = (ctypes.c_int64 * (3 * len(units)))(*chain.from_iterable(units))
        with BufferAddress(view) as address:
            args = WaitsArgs(address, segment.start, min(segment.end, limit))
            args.sources, args.count = ctypes.addressof(sources), len(units)
            args.out = ctypes.addressof(ctypes.c_char.from_buffer(rows))
            count = self._waits(ctypes.addressof(args))
        found = []
        for (queue_offset, store, due, at, size, code), unit in zip(
            _ROW.iter_unpack(memoryview(rows)[: count * _ROW.size]), units, strict=False
        ):
            at -= segment.start
            topic = self._name(bytes(view[at : at + size]))
            found.append(TimedMessage(queue_offset, store, due, topic, code, unit[0], unit[1]))
        return found

    def _name(self, raw: bytes) -> str:
        name = self._names.get(raw)
        if name is None:
            if len(self._names) >= NAMES_MAX:
                self._names.clear()
            name = self._names[raw] = raw.decode()
        return name
