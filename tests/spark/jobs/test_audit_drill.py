"""From differing bytes to records."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.spark.jobs.replicas import FILE_BYTES, Held, held, make_log

from epochmq.model import record
from epochmq.spark.jobs.audit_core import Split
from epochmq.spark.jobs.audit_drill import Read, ReplicaByte, differing, drill, place_at, suspects

LOG = make_log(300, seed=5)


def reader(*replicas: Held) -> Read:
    by_name = {each.shape.name: each for each in replicas}
    return lambda name, low, high: by_name[name].read(low, high)


def of(*flips: int) -> Held:
    return held("b", LOG, confirmed=LOG.end, flips=flips)


GOOD = held("a", LOG, confirmed=LOG.end)
READ = reader(GOOD)


@given(st.binary(max_size=400), st.lists(st.integers(0, 399), max_size=6))
def test_ranges_that_differ(text: bytes, flips: list[int]) -> None:
    other = bytearray(text)
    changed = {at for at in flips if at < len(text)}
    for at in changed:
        other[at] ^= 0x40
    found = list(differing(text, bytes(other)))
    assert {at for low, high in found for at in range(low, high)} == changed
    assert all(one[1] < two[0] for one, two in pairwise(found))


@given(st.integers(0, LOG.end - 1))
def test_every_byte_lies_in_its_record_or_in_a_filler(at: int) -> None:
    place = place_at("a", at, 0, READ)
    expected = LOG.record_at(at)
    if expected is None:
        assert place.kind == "filler"
        assert place.offset + place.size == (at // FILE_BYTES + 1) * FILE_BYTES
    else:
        number = LOG.starts.index(expected)
        assert place.is_sound
        assert (place.offset, place.queue_id, place.queue_offset) == (
            expected,
            number % 4,
            number // 4,
        )
        assert (place.topic, place.msg_id) == ("orders", f"ID{number:06d}")


def test_a_record_that_holds_a_copy_of_another_record_hides_nothing() -> None:
    inner = bytes(LOG.data[: LOG.starts[1]])
    outer = record.encode(
        b"t",
        inner * 2,
        b"",
        0,
        0,
        7,
        0,
        0,
        1,
        b"\x7f\0\0\1\0\0\0\1",
        2,
        b"\x7f\0\0\1\0\0\0\1",
        0,
        0,
    )
    place = place_at("a", len(outer) - 1, 0, lambda _, low, high: outer[low:high])
    assert (place.offset, place.queue_offset) == (0, 7)


@pytest.mark.parametrize("part", [0, 4, 30, 90])
def test_a_turned_bit_anywhere_in_a_record_leads_to_that_record(part: int) -> None:
    at = LOG.starts[100] + part
    read = reader(GOOD, of(at))
    found = drill(Split(0, LOG.end, (("a",), ("b",))), 4096, 0, read)
    assert (found.first, found.last) == (at, at)
    assert len(found.records) == 1
    assert found.records[0]["a"].offset == LOG.starts[100]
    assert not found.records[0]["b"].is_sound
    assert found.suspects == ("b",)


def test_properties_have_no_checksum_so_two_copies_cannot_tell_which_is_wrong() -> None:
    at = LOG.starts[101] - 4
    found = drill(Split(0, LOG.end, (("a",), ("b",))), 4096, 0, reader(GOOD, of(at)))
    assert found.records[0]["b"].body_fits
    assert found.suspects == ()


def test_three_can_tell() -> None:
    at = LOG.starts[101] - 4
    found = drill(Split(0, LOG.end, (("a", "c"), ("b",))), 4096, 0, reader(GOOD, of(at)))
    assert found.suspects == ("b",)


def test_only_so_many_records_are_named_but_first_and_last_are_exact() -> None:
    flips = tuple(start + 95 for start in LOG.starts[10:200])
    read = reader(GOOD, of(*flips))
    found = drill(Split(0, LOG.end, (("a",), ("b",))), 4096, 0, read, records_max=3)
    assert [each["a"].offset for each in found.records] == LOG.starts[10:13]
    assert found.more
    assert found.first == flips[0]


def test_where_nobody_has_a_record_there_is_a_gap() -> None:
    assert place_at("a", 50, 0, lambda _, low, high: bytes(high - low)) == ReplicaByte("gap", 50)


def test_nobody_is_suspected_when_all_are_damaged() -> None:
    gap = ReplicaByte("gap", 1)
    assert suspects((("a",), ("b",)), [{"a": gap, "b": gap}]) == ()
