"""The file of a snapshot: what it says, and that no damaged one is believed."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.backup.backup_snapshot import (
    BackupSnapshot,
    Piece,
    decode_snapshot,
    encode_snapshot,
    is_snapshot_id,
    piece_of,
)
from epochmq.base.errors import StoreDamaged
from epochmq.model.saved_file import seal

ID = "20261128T181134.123Z"
PIECES = [piece_of(100, b"x" * 50), piece_of(150, b"y" * 50)]


def snapshot(**changes: object) -> BackupSnapshot:
    given = BackupSnapshot(
        id=ID,
        cluster="DefaultCluster",
        broker_name="broker-a",
        version="1",
        file_bytes=1000,
        log_start=120,
        log_end=200,
        pieces=PIECES,
        tables={"config/topics.json": b"{}", "config/timercheck": bytes(range(256))},
    )
    return msgspec.structs.replace(given, **changes)


def test_a_file_is_read_as_it_was_written() -> None:
    assert decode_snapshot("f", encode_snapshot(snapshot())) == snapshot()


@given(st.integers(0, 10**6), st.integers(0, 7))
def test_no_damaged_file_is_believed(place: int, bit: int) -> None:
    data = bytearray(encode_snapshot(snapshot()))
    data[place % len(data)] ^= 1 << bit
    with pytest.raises(StoreDamaged, match=r"^f is damaged"):
        decode_snapshot("f", bytes(data))


@given(st.binary())
def test_any_bytes_are_read_or_called_damaged(data: bytes) -> None:
    with pytest.raises(StoreDamaged):
        decode_snapshot("f", data)


def test_a_file_without_its_checksum_is_damaged() -> None:
    with pytest.raises(StoreDamaged, match="it has no checksum"):
        decode_snapshot("f", msgspec.json.encode(snapshot()))


def test_a_newer_format_is_named() -> None:
    with pytest.raises(StoreDamaged, match="format 2; a newer release"):
        decode_snapshot("f", encode_snapshot(snapshot(format=2)))
    with pytest.raises(StoreDamaged, match="damaged"):
        decode_snapshot("f", seal(b'{"format": 1}'))


@pytest.mark.parametrize(
    "changes",
    [
        {"pieces": PIECES[:1]},
        {"pieces": PIECES[1:], "log_start": 100},
        {"pieces": [PIECES[0], Piece(160, 200, "")]},
        {"pieces": [PIECES[0], Piece(150, 150, ""), PIECES[1]]},
        {"pieces": []},
        {"log_start": 201},
        {"log_start": 99},
        {"file_bytes": 0},
    ],
)
def test_pieces_that_do_not_make_up_the_log(changes: dict[str, object]) -> None:
    with pytest.raises(StoreDamaged):
        decode_snapshot("f", encode_snapshot(snapshot(**changes)))


def test_an_empty_log_has_no_pieces() -> None:
    empty = snapshot(pieces=[], log_start=0, log_end=0)
    assert decode_snapshot("f", encode_snapshot(empty)) == empty


def test_ids() -> None:
    assert is_snapshot_id(ID)
    assert not any(map(is_snapshot_id, ("", ID[:-1], ID + "x", "../" + ID, ID.lower())))
