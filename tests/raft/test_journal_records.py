"""One record, and what a bad one means: torn is cut, anything else is damage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import StoreDamaged
from epochmq.raft.journal_records import SECTOR, RecordKind, Scan, encode, record_at, size_of


def scan(data: bytes, born: int = 0) -> tuple[list[bytes], Scan]:
    scan = Scan(data, "journal")
    scan.born_bytes = born
    return [body for _kind, body in scan.records()], scan


def file_of(*bodies: bytes, synced_each: bool = True, size: int = 4096) -> bytes:
    """Records that were synced one by one, or all at once."""
    data = b""
    for body in bodies:
        data += encode(RecordKind.ENTRY, body, len(data) if synced_each else 0)
    return data.ljust(size, b"\0")


@given(st.binary(max_size=600), st.sampled_from(RecordKind), st.integers(0, 1 << 60))
def test_a_record_is_read_back(body: bytes, kind: RecordKind, synced: int) -> None:
    data = encode(kind, body, synced)
    assert len(data) == size_of(body)
    assert record_at(b"xx" + data + b"more", 2) == (kind, synced, body, 2 + len(data))


@given(st.binary(max_size=64))
def test_noise_is_no_record(data: bytes) -> None:
    assert record_at(data, 0) is None


@given(st.lists(st.binary(max_size=700), min_size=1, max_size=6))
def test_a_whole_file_has_nothing_to_cut(bodies: list[bytes]) -> None:
    data = file_of(*bodies, size=8192)
    found, after = scan(data)
    assert found == bodies
    assert not after.torn


@pytest.mark.parametrize("synced_each", [True, False])
def test_a_tail_torn_at_every_byte_is_cut(synced_each: bool) -> None:
    whole = file_of(b"one", b"two" * 300, synced_each=synced_each)
    end = size_of(b"one") + size_of(b"two" * 300)
    for cut in range(size_of(b"one"), end):
        found, after = scan(whole[:cut].ljust(4096, b"\0"))
        assert found == [b"one"], cut
        assert after.end == size_of(b"one")
        found, _ = scan(whole[:cut])
        assert found == [b"one"], "the file may also end there"


def test_a_sector_that_is_missing_in_the_last_record_is_a_torn_tail() -> None:
    whole = bytearray(file_of(b"one", b"two" * 600))
    whole[SECTOR : 2 * SECTOR] = bytes(SECTOR)
    assert scan(bytes(whole))[0] == [b"one"]


def test_every_flipped_bit_before_a_later_sync_is_damage() -> None:
    good = file_of(b"one", b"two", b"three")
    stop = size_of(b"one") + size_of(b"two")
    for bit in range(stop * 8):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(StoreDamaged, match="Restore the file; or delete"):
            scan(bytes(bad))


def test_a_flipped_bit_in_the_last_record_is_damage_but_for_its_length() -> None:
    good = file_of(b"one", b"two")
    start, stop = size_of(b"one"), size_of(b"one") + size_of(b"two")
    for bit in range((start + 4) * 8, stop * 8):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(StoreDamaged):
            scan(bytes(bad))


def test_what_the_file_was_born_with_cannot_be_torn() -> None:
    whole = file_of(b"one", b"two")
    with pytest.raises(StoreDamaged):
        scan(whole[: size_of(b"one")].ljust(4096, b"\0"), born=size_of(b"one") + 1)


def test_an_empty_file_is_damage() -> None:
    with pytest.raises(StoreDamaged):
        scan(bytes(4096))


def test_later_records_of_the_same_sync_do_not_vouch_for_a_missing_one() -> None:
    """The device may keep a later write and lose an earlier one of the same sync."""
    data = bytearray(file_of(b"one", b"x" * 1000, b"y" * 40, synced_each=False))
    start = size_of(b"one")
    data[start : start + size_of(b"x" * 1000)] = bytes(size_of(b"x" * 1000))
    found, after = scan(bytes(data))
    assert found == [b"one"]
    assert after.torn
