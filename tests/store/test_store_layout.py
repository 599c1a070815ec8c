"""Shapes and names of the derived files, byte for byte."""

from epochmq.store.draft import BATCH_PLACE, BATCH_UNIT, FRONT, UNIT, UNIT_BYTES, file_name


def test_sizes() -> None:
    assert (FRONT.size, UNIT_BYTES, BATCH_UNIT.size) == (40, 20, 46)


def test_a_batch_unit_reads_as_a_plain_one() -> None:
    packed = BATCH_UNIT.pack(1 << 40, 7, -5, 99, 12, 3, -1, 0)
    assert BATCH_PLACE.unpack(packed) == UNIT.unpack(packed[:UNIT_BYTES]) == (1 << 40, 7, -5)


def test_names_sort_as_numbers() -> None:
    assert file_name(300) == "00000000000000000300"
