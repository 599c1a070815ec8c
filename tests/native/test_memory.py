"""The memory that the native code writes to."""

import ctypes
import gc
from pathlib import Path

import pytest

from epochmq.native.memory import BufferAddress, NativeMemory


def sizes() -> tuple[int, int]:
    """(address space, what of it is resident) of this process, bytes."""
    virtual, resident, *_ = Path("/proc/self/statm").read_text().split()
    return int(virtual) * 4096, int(resident) * 4096


def resident_bytes() -> int:
    return sizes()[1]


def test_it_is_zero_shared_and_outlives_its_owner() -> None:
    memory = NativeMemory(1 << 16)
    assert not any(memory.view)
    ctypes.memset(memory.address + 5, 7, 2)
    part = memory.view[4:8]
    del memory
    gc.collect()
    assert bytes(part) == b"\0\7\7\0"


def test_bytes_stay_at_their_address_while_the_block_runs() -> None:
    data = bytearray(b"abc")
    with BufferAddress(memoryview(data).toreadonly()[1:]) as address:
        assert ctypes.string_at(address, 2) == b"bc"
        with pytest.raises(BufferError):
            data.append(1)
    data.append(1)


def test_only_what_is_touched_takes_room() -> None:
    size = 64 << 20  # the C library keeps none of this size, of those that others gave back
    before = resident_bytes()
    many = [NativeMemory(size) for _ in range(8)]
    for memory in many:
        memory.view[0] = 1
    assert resident_bytes() - before < size


def test_what_there_is_not_is_not_given() -> None:
    with pytest.raises(MemoryError, match="no 1152921504606846976 bytes"):
        NativeMemory(1 << 60)
