"""The records of a file: what is not sound, exactly, and nothing that is."""

import pytest
from tests.store.world import HOST

from epochmq.model.record import HEAD, OFFSET_AT, blank, encode
from epochmq.store.file_records import RECORD_BYTES_MAX, FileRecords
from epochmq.store.written_blocks import BLOCK_BYTES

PROPERTIES = 800


def record(offset: int, body: bytes) -> bytes:
    properties = b"p\x01" + b"x" * PROPERTIES
    return encode(b"T", body, properties, 0, 0, 0, offset, 0, 1, HOST, 2, HOST, 0, 0)


def log(start: int = 0, *, inner: bool = True) -> tuple[bytearray, list[tuple[int, int]]]:
    """One file with records, one of several blocks, its blank, and (begin, end) of the records.

    `inner`: each body holds what looks like a sound record of exactly that place.
    """
    data, places = bytearray(), []
    for body in (b"a" * 9, bytes(3 * BLOCK_BYTES), b"b" * 2000, b"c" * 300):
        at = start + len(data)
        fake = record(at + HEAD.size, b"i" * 50) if inner else b""
        data += record(at, fake + body)
        places.append((at, start + len(data)))
    rest = 5 * BLOCK_BYTES - len(data)
    return data + blank(rest).ljust(rest, b"\0"), places


def records(data: bytearray, start: int = 0, log_end: int | None = None) -> FileRecords:
    def read(at: int, size: int) -> bytes:
        return bytes(data[at - start : at - start + size])

    end = start + len(data)
    return FileRecords(read, start, end, end if log_end is None else log_end)


def test_sound_records_are_sound_in_each_block() -> None:
    data, _ = log(start=BLOCK_BYTES)
    found = records(data, BLOCK_BYTES)
    for low in range(BLOCK_BYTES, BLOCK_BYTES + len(data), 512):
        assert found.bad(low, low + 512) == []


@pytest.mark.parametrize(
    ("at", "inner"),
    [(2, False), (6, True), (OFFSET_AT + 6, True), (HEAD.size - 2, True), (HEAD.size + 5, True)],
    ids=["size", "magic", "offset", "length", "body"],
)
def test_a_bit_names_its_record_wherever_the_look_begins(at: int, inner: bool) -> None:
    _, places = log(inner=inner)
    for begin, end in places if at > 4 else places[:-1]:  # where a last one ends only its size says
        data, _ = log(inner=inner)
        data[begin + at] ^= 16
        for low in {begin, begin + (end - begin) // 2, end - 1}:
            assert [bad[:2] for bad in records(data).bad(low, low + 1)] == [(begin, end)]
        assert records(data).bad(end, end + 1) == []
        assert records(data).bad(begin - 1, begin) == []


def test_what_is_not_written_yet_is_no_damage() -> None:
    data, places = log()
    begin, end = places[2]
    data[begin + 500 :] = bytes(len(data) - begin - 500)
    assert records(data, log_end=begin + 500).bad(begin, begin + 500) == []
    assert records(data, log_end=end).bad(begin, begin + 500) != []


def test_bytes_of_no_record_of_this_place_begin_nothing() -> None:
    """A look that begins in the middle of a file may find no record before its block at all."""
    noise = bytearray(BLOCK_BYTES)
    assert [bad[:2] for bad in records(noise).bad(500, 600)] == [(0, 600)]
    far = FileRecords(lambda at, size: bytes(size), 0, 1 << 40, 1 << 40)
    assert far.bad(1 << 39, (1 << 39) + 10) == []


def test_a_short_lead_may_see_damage_where_is_none_but_misses_none() -> None:
    data, places = log()
    begin, end = places[1]
    low = begin + BLOCK_BYTES
    assert records(data).bad(low, low + 512) == []
    assert records(data).bad(low, low + 512, lead=low) == []
    lead = low - begin - 1  # it begins behind the record's begin, before what looks like one
    assert records(data).bad(low, low + 512, lead)
    for begin, end in places:
        for at in (2, 6, OFFSET_AT + 6, HEAD.size - 2, HEAD.size + 5):
            changed, _ = log(inner=False)
            changed[begin + at] ^= 16
            found = records(changed).bad(end - 1, end, RECORD_BYTES_MAX)
            assert records(changed).bad(end - 1, end, end - begin + 200) == found
