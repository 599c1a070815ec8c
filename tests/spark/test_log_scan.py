"""Sound records are found around any damage, and the damage is told to the byte."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from epochmq.model.record import HEADS, blank, encode
from epochmq.spark.log_scan import LogDamage, RecordRun, resync, scan

from .logs import HOST, WALL, LogImage, image, record

WHOLE = image(40, 1)


def found(
    log: LogImage, *, start: int = 0, stop: int = 0, crc: bool = True
) -> tuple[list[tuple[int, int]], list[LogDamage]]:
    """All sound records and all damage."""
    records, damaged = [], []
    end = log.base + len(log.data)
    file_end = WHOLE.base + len(WHOLE.data)
    for piece in scan(
        bytes(log.data), log.base, start or log.base, stop or end, file_end=file_end, crc=crc
    ):
        if isinstance(piece, RecordRun):
            borders = [*piece.offsets.tolist(), piece.end]
            assert borders[0] == piece.start
            records += [(a, b - a) for a, b in pairwise(borders)]
        else:
            damaged.append(piece)
    return records, damaged


def changed(at: int, mask: int) -> LogImage:
    data = bytearray(WHOLE.data)
    data[at] ^= mask
    return LogImage(data, WHOLE.base, WHOLE.records, WHOLE.filler)


def test_a_sound_file_is_all_records_and_its_filler_is_no_damage() -> None:
    assert found(WHOLE) == (WHOLE.records, [])


@pytest.mark.parametrize("first", [0, 1, 17, 39])
def test_a_part_of_a_file_is_read_from_border_to_border(first: int) -> None:
    begin, stop = WHOLE.records[first][0], WHOLE.records[-1][0]
    assert found(WHOLE, start=begin, stop=stop) == (WHOLE.records[first:-1], [])


@settings(max_examples=examples(150))
@given(st.integers(0, len(WHOLE.data) - 1), st.integers(1, 255))
def test_a_changed_byte_hides_one_record_at_most(at: int, mask: int) -> None:
    """Of what it hides every byte is told; what no check covers is read as it is."""
    log = changed(at, mask)
    offset = WHOLE.base + at
    records, damaged = found(log)
    if offset >= WHOLE.filler:
        in_filler_head = offset < WHOLE.filler + 8
        assert records == WHOLE.records
        end = WHOLE.base + len(WHOLE.data)
        assert [(d.start, d.end) for d in damaged] == [(WHOLE.filler, end)] * in_filler_head
        return
    hit = next(r for r in WHOLE.records if r[0] <= offset < r[0] + r[1])
    if not damaged:
        assert records == WHOLE.records
        assert is_unchecked(log, hit[0] - log.base, offset - hit[0])
        return
    assert records == [r for r in WHOLE.records if r != hit]
    assert [(d.start, d.end) for d in damaged] == [(hit[0], hit[0] + hit[1])]
    assert damaged[0].why


def is_unchecked(log: LogImage, at: int, within: int) -> bool:
    """Whether the byte is one that neither a length, an offset nor a checksum covers."""
    data = WHOLE.data
    flags = int.from_bytes(data[at + 36 : at + 40], "big")
    head = HEADS[flags >> 4 & 3].size
    body = int.from_bytes(data[at + head - 4 : at + head], "big")
    covered = {*range(8), *range(28, 36), *range(head - 4, head + body), *range(8, 12)}
    return within not in covered


@settings(max_examples=examples(80))
@given(st.integers(0, len(WHOLE.data)))
def test_a_file_that_was_cut_short_gives_all_that_is_whole(size: int) -> None:
    log = LogImage(WHOLE.data[:size], WHOLE.base, WHOLE.records, WHOLE.filler)
    whole = [r for r in WHOLE.records if r[0] + r[1] <= WHOLE.base + size]
    records, damaged = found(log)
    assert records == whole
    end = whole[-1][0] + whole[-1][1] if whole else WHOLE.base
    rest = [(end, WHOLE.base + size)] if end < WHOLE.base + size else []
    if size >= WHOLE.filler - WHOLE.base + 8:
        rest = []  # the filler is there
    assert [(d.start, d.end) for d in damaged] == rest


@settings(max_examples=examples(60))
@given(st.data())
def test_a_lost_range_is_told_and_what_follows_it_is_found(data: st.DataObject) -> None:
    size = len(WHOLE.data)
    low = data.draw(st.integers(0, size - 1))
    high = data.draw(st.integers(low + 1, size))
    assume(any(WHOLE.data[low:high]))
    log = LogImage(bytearray(WHOLE.data), WHOLE.base, WHOLE.records, WHOLE.filler)
    log.data[low:high] = bytes(high - low)
    records, damaged = found(log)
    untouched = [
        r for r in WHOLE.records if r[0] + r[1] <= WHOLE.base + low or r[0] >= WHOLE.base + high
    ]
    assert set(untouched) <= set(records)
    for piece in damaged:
        assert not any(piece.start < r[0] + r[1] and r[0] < piece.end for r in records)
    covered = sum(r[1] for r in records) + sum(d.end - d.start for d in damaged)
    filler_is_there = high <= WHOLE.filler - WHOLE.base or low >= WHOLE.filler - WHOLE.base + 8
    assert covered == (WHOLE.filler - WHOLE.base if filler_is_there else size)


def test_without_checksums_a_changed_body_is_a_record_all_the_same() -> None:
    at = next(o for o, size in WHOLE.records if size > 900) - WHOLE.base
    assert found(changed(at + 300, 1), crc=False) == (WHOLE.records, [])
    assert len(found(changed(at + 300, 1))[1]) == 1


@pytest.mark.parametrize("last", [False, True])
def test_a_record_hidden_in_a_body_is_not_found_while_the_size_around_it_is_believed(
    last: bool,
) -> None:
    """Somebody may write a message whose body is a record of the very place where it lies."""
    base = 4096
    hidden = record(base + 88 + 10, 7, Random(3))
    outer = encode(b"T", b"x" * 10 + hidden, b"", 0, 0, 1, base, 0, WALL, HOST, WALL, HOST, 0, 0)
    following = blank(64).ljust(64, b"\0") if last else record(base + len(outer), 2, Random(4))
    data = bytearray(outer + following)
    data[90] ^= 1  # in the outer body: its checksum is wrong
    found = list(scan(bytes(data), base, base, base + len(data)))
    places = [(base, base + len(outer)), (base + len(outer), base + len(data))]
    assert [(p.start, p.end) for p in found] == places[: 1 if last else 2]
    assert isinstance(found[0], LogDamage)


def test_nothing_behind_the_damage_leads_to_the_end() -> None:
    assert resync(b"\0" * 500, 0, 0, 500, 500) == 500
