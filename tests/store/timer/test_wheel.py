"""The ring of slots."""

import pytest
from sim.kernel.disk import SimDisk

from epochmq.store.timer.wheel import FILE, TimerDamaged, TimerSlot, Wheel

BYTES = 100 * 32


def test_it_is_made_by_the_first_slot() -> None:
    disk = SimDisk()
    wheel = Wheel(disk, BYTES)
    wheel.open()
    assert wheel.get(7) is None
    assert (list(wheel.all()), wheel.file, disk.exists(FILE)) == ([], None, False)
    wheel.put({7: TimerSlot(7, 0, 52, 2), 9: TimerSlot(9, 104, 104, 1)})
    assert disk.size(FILE) == BYTES
    assert wheel.get(7) == TimerSlot(7, 0, 52, 2)
    assert wheel.get(107) is None  # another round of the ring
    wheel.put({107: TimerSlot(107, 156, 156, 1), 9: None})
    assert (wheel.get(7), wheel.get(9)) == (None, None)
    wheel.close()
    again = Wheel(disk, BYTES)
    again.open()
    assert list(again.all()) == [TimerSlot(107, 156, 156, 1)]
    again.reset()
    assert (again.get(107), disk.exists(FILE)) == (None, False)


def test_another_size_is_damage() -> None:
    disk = SimDisk()
    Wheel(disk, BYTES).put({1: TimerSlot(1, 0, 0, 1)})
    with pytest.raises(TimerDamaged, match="3232 bytes"):
        Wheel(disk, BYTES + 32).open()


@pytest.mark.parametrize(
    "slot", [TimerSlot(1, -1, 0, 1), TimerSlot(1, 52, 0, 1), TimerSlot(1, 0, 0, 0)]
)
def test_a_slot_that_makes_no_sense_is_damage(slot: TimerSlot) -> None:
    wheel = Wheel(SimDisk(), BYTES)
    wheel.put({1: slot})
    with pytest.raises(TimerDamaged, match="tick 1 makes no sense"):
        wheel.get(1)


def test_large_wheels_are_scanned_whole() -> None:
    disk = SimDisk()
    wheel = Wheel(disk, 5000 * 32)
    slots = {tick: TimerSlot(tick, 0, 52, 1) for tick in (0, 2047, 2048, 4999)}
    wheel.put(slots)
    assert list(wheel.all()) == list(slots.values())
