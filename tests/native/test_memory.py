"""The memory that the native code writes to."""

import ctypes
import gc
from pathlib import Path

import pytest
from sim.kernel.disk import SimDisk
from tests.store.world import HOST, SMALL

from epochmq.native import library
from epochmq.native.memory import BufferAddress, NativeMemory
from epochmq.store.store import Store


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


@pytest.mark.skipif(library.library() is None, reason=library.which())
def test_stores_that_come_and_go_leave_nothing() -> None:
    """A store has 30 MiB of it; a test process has opened thousands, a container opens many."""
    gc.collect()
    before = sizes()
    for _ in range(3):
        stores = [Store.open(SimDisk(), SMALL, HOST, 1_700_000_000_000) for _ in range(40)]
        for store in stores:
            store._follower.begin()
            assert store._native_messages.remaker is not None
            assert store._appender._native_batch is not None
        virtual, resident = sizes()
        assert virtual - before[0] > 500 << 20
        assert resident - before[1] < 32 << 20
        del stores, store
        gc.collect()
    virtual, resident = sizes()
    assert virtual - before[0] < 64 << 20
    assert resident - before[1] < 16 << 20


def test_a_store_asks_for_it_when_it_is_needed() -> None:
    gc.collect()
    before, _ = sizes()
    stores = [Store.open(SimDisk(), SMALL, HOST, 1_700_000_000_000) for _ in range(40)]
    assert sizes()[0] - before < 64 << 20
    assert len(stores) == 40
