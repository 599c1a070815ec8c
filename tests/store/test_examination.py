"""A second look at a block: what is not sound, exactly, and nothing that is."""

import pytest
from tests.store.test_scrub import OPTIONS, flip, replicas
from tests.store.world import HOST

from epochmq.model.log_blocks import digest
from epochmq.model.record import HEAD, OFFSET_AT, blank, encode
from epochmq.store.examination import FileRecords
from epochmq.store.store import Store
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


def look(store: Store, start: int) -> tuple[str, str]:
    """(digest, reason) of the block at `start`."""
    end = min(store.checksums.block_at(start).stop, store.pointers.confirmed)
    examination = store.scrub.examination(start, end)
    assert examination is not None
    examination.run()
    reason = examination.conclude()
    return examination.digest, reason


@pytest.mark.parametrize("checksums", [True, False])
def test_a_store_is_looked_at_block_by_block(checksums: bool) -> None:
    master, follower = replicas(checksums=checksums)
    assert OPTIONS.commit_log_file_bytes == 3 * BLOCK_BYTES
    end = master.pointers.confirmed
    for start in range(0, end, BLOCK_BYTES):
        size = min(BLOCK_BYTES, end - start)
        assert look(master, start) == (digest([follower.slice(start, size)]), "")
    assert master.damage.found == 0
    ((at, size, _),) = follower.units("T0", 0, 2, 1)
    flip(master, at + 91)
    reason = look(master, 0)[1]
    (damaged,) = master.damage.ranges
    if checksums:
        assert "checksum" in reason
        assert (damaged.start, damaged.end) == (0, BLOCK_BYTES)
    else:
        assert reason == "body checksum is wrong"
        assert (damaged.start, damaged.end) == (at, at + size)


def test_a_cut_makes_a_look_void() -> None:
    master, _ = replicas(checksums=False)
    flip(master, 4)
    examination = master.scrub.examination(0, BLOCK_BYTES)
    assert examination is not None
    examination.run()
    master.checksums.invalidate(master.pointers.appended)
    assert "cut" in examination.conclude()
    assert master.damage.found == 0
    for start, end in ((0, 0), (0, BLOCK_BYTES + 1), (1 << 40, (1 << 40) + 1), (9, 2)):
        assert master.scrub.examination(start, end) is None


def test_what_cannot_be_read_is_not_sound() -> None:
    master, _ = replicas()
    examination = master.scrub.examination(0, BLOCK_BYTES)
    assert examination is not None
    master._log.find(0).file.close()  # type: ignore[union-attr]
    examination.run()
    assert examination.conclude()
