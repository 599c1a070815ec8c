"""The native code's comparison of units and records says what Python says."""

from random import Random

import pytest
from sim.kernel.disk import SimDisk
from tests.store.world import HOST, SMALL, draft

from epochmq.native import library
from epochmq.store.draft import UNIT
from epochmq.store.store import Store
from epochmq.store.units import NativeUnits

WALL = 1_700_000_000_000
NATIVE = library.library()


@pytest.mark.skipif(NATIVE is None, reason="no native code")
def test_it_stops_at_the_first_unit_that_does_not_agree() -> None:
    assert NATIVE is not None
    store = Store.open(SimDisk(), SMALL, HOST, WALL)
    rng = Random("units")
    while store._log.end < 3000:
        store.append([draft(len(store._queues.all()), rng, "T")], WALL)
    native, segment = NativeUnits(NATIVE), store._log.segments[0]
    queue = store._queues.get("T", 0)
    units = queue.units(0, 99)
    count = len(units) // UNIT.size
    assert count > 2

    def verify(data: bytes, room: int = 1 << 30, crc: bool = True) -> int:
        end = store._log.end
        return native.verify(segment, end, data, 0, 0, b"T", crc=crc, room=room)[0]

    assert verify(units) == count
    assert verify(units, room=1) == 1
    for number in range(count):
        for bit in range(number * 160, number * 160 + 160):
            data = bytearray(units)
            data[bit // 8] ^= 1 << bit % 8
            assert verify(bytes(data)) == number, bit
    offset, size, _ = UNIT.unpack_from(units, UNIT.size)
    segment.write(offset + 90, bytes([segment.view[offset + 90] ^ 1]))
    assert (verify(units), verify(units, crc=False)) == (1, count)
    assert native.verify(segment, offset + size - 1, units, 0, 0, b"T", crc=False, room=99999) == (
        1,
        UNIT.unpack_from(units)[1],
    )
    assert native.verify(segment, 4096, units, 0, 1, b"T", crc=False, room=99999) == (0, 0)
