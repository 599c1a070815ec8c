"""Slots and units as bytes: RocketMQ's layout, and nothing believed that was not written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.store.timer.wheel import (
    SLOT_BYTES,
    UNIT_BYTES,
    TimerDamaged,
    TimerSlot,
    Unit,
    decode_slot,
    decode_unit,
)

SLOT = TimerSlot(1_700_000_000, 104, 1040, 3)
UNIT = Unit(52, 1, 1_700_000_000_000, 5000, 123_456, 300, -7, 1_700_000_005_500)


def test_sizes_are_upstreams() -> None:
    assert (SLOT_BYTES, UNIT_BYTES) == (32, 52)
    assert len(SLOT.encode()) == 32
    data = UNIT.encode()
    assert len(data) == 52
    assert data[:4] == (52).to_bytes(4, "big")
    assert data[12:16] == (1).to_bytes(4, "big")
    assert data[28:36] == (123_456).to_bytes(8, "big")


def test_round_trips() -> None:
    assert decode_slot(SLOT.encode()) == SLOT
    assert decode_unit(UNIT.encode()) == UNIT
    assert decode_slot(bytes(32)) is None


@given(st.integers(-(1 << 47), (1 << 47) - 1))
def test_a_time_has_48_bits(time: int) -> None:
    unit = UNIT._replace(deliver_wall_ms=time)
    assert decode_unit(unit.encode()) == unit


@pytest.mark.parametrize("unit", [UNIT, Unit(-1, 1, 0, 0, 0, 1, 0, 0)])
def test_any_flipped_bits_of_a_unit_are_noticed(unit: Unit) -> None:
    """Its time was believed: a message was taken for delivered, or came a minute late."""
    data = unit.encode()
    for bit in range(8 * len(data)):
        for width in range(1, 17):  # a run of them as well
            number = int.from_bytes(data, "big") ^ ((1 << width) - 1) << bit
            with pytest.raises(TimerDamaged):
                decode_unit((number & (1 << 416) - 1).to_bytes(52, "big"))


@given(st.integers(0, 31), st.integers(1, 255))
def test_a_changed_byte_of_a_slot_is_noticed(at: int, flip: int) -> None:
    data = bytearray(SLOT.encode())
    data[at] ^= flip
    with pytest.raises(TimerDamaged):
        decode_slot(bytes(data))


@pytest.mark.parametrize("size", [0, 1, 31, 33])
def test_a_cut_slot_is_noticed(size: int) -> None:
    with pytest.raises(TimerDamaged):
        decode_slot(SLOT.encode()[:size].ljust(min(size, 32), b"\0") + b"x" * (size > 32))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        UNIT.encode()[:51],
        bytes(52),
        UNIT._replace(magic=0).encode(),
        UNIT._replace(magic=8).encode(),
        UNIT._replace(offset=-1).encode(),
        UNIT._replace(size=0).encode(),
    ],
)
def test_what_is_no_unit(data: bytes) -> None:
    with pytest.raises(TimerDamaged):
        decode_unit(data)
