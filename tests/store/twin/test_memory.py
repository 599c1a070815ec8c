"""The memory that the twin writes to."""

import ctypes
import gc
from pathlib import Path

from epochmq.store.twin.memory import Memory


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_it_is_zero_shared_and_outlives_its_owner() -> None:
    memory = Memory(1 << 16)
    assert not any(memory.view)
    ctypes.memset(memory.address + 5, 7, 2)
    part = memory.view[4:8]
    del memory
    gc.collect()
    assert bytes(part) == b"\0\7\7\0"


def test_only_what_is_touched_takes_room() -> None:
    size = 64 << 20  # the C library keeps none of this size, of those that others gave back
    before = resident_bytes()
    many = [Memory(size) for _ in range(8)]
    for memory in many:
        memory.view[0] = 1
    assert resident_bytes() - before < size
