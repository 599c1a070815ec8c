"""The files of backups: names, what prune deletes, and what it leaves."""

from pathlib import Path

import pytest

from epochmq.backup.backup_files import BackupFiles, broker_groups_in, open_backups
from epochmq.backup.backup_snapshot import BackupSnapshot, Piece
from epochmq.base.errors import NotFound, StoreDamaged, UsageError

from .test_backup_snapshot import snapshot


def made(files: BackupFiles, number: int, pieces: list[Piece]) -> BackupSnapshot:
    found = snapshot(
        id=f"2026112{number}T000000.000Z",
        log_start=pieces[0].start,
        log_end=pieces[-1].end,
        pieces=pieces,
    )
    files.write_snapshot(found)
    return found


@pytest.fixture
def files(tmp_path: Path) -> BackupFiles:
    return BackupFiles(open_backups(str(tmp_path)), "DefaultCluster", "broker-a")


def test_nothing_is_there_at_first(files: BackupFiles, tmp_path: Path) -> None:
    assert (files.ids(), files.latest(), files.pieces()) == ([], None, {})
    assert broker_groups_in(open_backups(str(tmp_path))) == []
    assert broker_groups_in(open_backups(str(tmp_path / "none"))) == []
    assert files.prune(1) == ([], 0)


def test_snapshots_and_the_log_are_read_as_they_were_written(files: BackupFiles) -> None:
    pieces = [files.write_piece(100, b"x" * 50), files.write_piece(150, b"y" * 30)]
    one = made(files, 1, pieces[:1])
    two = made(files, 2, pieces)
    assert files.ids() == [one.id, two.id]
    assert files.latest() == two
    assert files.snapshot(one.id) == one
    assert list(files.read_log(two)) == [(100, b"x" * 50), (150, b"y" * 30)]
    later = snapshot(log_start=160, log_end=180, pieces=pieces)
    assert list(files.read_log(later)) == [(160, b"y" * 20)]
    with pytest.raises(NotFound, match=rf"no snapshot x; the newest one is {two.id}"):
        files.snapshot("x")


def test_names_that_lead_elsewhere_are_refused_or_quoted(tmp_path: Path) -> None:
    storage = open_backups(str(tmp_path / "root"))
    for name in ("..", ".", ""):
        with pytest.raises(UsageError, match="cannot be the name of a directory"):
            BackupFiles(storage, name, "b")
        with pytest.raises(UsageError, match="cannot be the name of a directory"):
            BackupFiles(storage, "c", name)
    odd = BackupFiles(storage, "a/../b", "x y/z")
    made(odd, 1, [odd.write_piece(0, b"x")])
    assert broker_groups_in(storage) == [("a/../b", "x y/z")]
    assert [path.name for path in tmp_path.iterdir()] == ["root"]


def test_a_snapshot_under_another_name_is_not_believed(files: BackupFiles) -> None:
    one = made(files, 1, [files.write_piece(0, b"x")])
    path = Path(files._storage.url(files._snapshot_path(one.id)))
    path.rename(path.with_name("20261129T000000.000Z.json"))
    with pytest.raises(StoreDamaged, match=f"holds snapshot {one.id}"):
        files.latest()


def test_missing_and_short_pieces_are_named(files: BackupFiles) -> None:
    piece = files.write_piece(0, b"x" * 10)
    path = Path(files._storage.url(files._piece_path(0, 10)))
    path.write_bytes(b"x" * 9)
    with pytest.raises(StoreDamaged, match="has 9 bytes, not 10"):
        files.read_piece(piece)
    path.unlink()
    with pytest.raises(StoreDamaged, match=f"{path.name} is missing"):
        files.read_piece(piece)


def test_prune_deletes_what_only_old_snapshots_need(files: BackupFiles) -> None:
    pieces = [files.write_piece(at, bytes(10)) for at in range(0, 50, 10)]
    made(files, 1, pieces[:2])
    made(files, 2, pieces[:3])
    newest = made(files, 3, pieces[1:4])
    files.write_piece(20, bytes(5))  # an interrupted backup, long ago
    running = files.write_piece(40, bytes(30))  # one that runs, or was interrupted just now
    folder = Path(files._storage.url(files._root)) / "log"
    (folder / f".{0:020d}-{7:020d}.log").write_bytes(bytes(3))
    (folder / f".{90:020d}-{99:020d}.log").write_bytes(bytes(3))
    (folder / "notes.txt").write_text("mine")
    dropped, freed = files.prune(1)
    assert (dropped, freed) == (["20261121T000000.000Z", "20261122T000000.000Z"], 10 + 5 + 3)
    assert files.ids() == [newest.id]
    assert sorted(files.pieces()) == sorted(
        [(p.start, p.end) for p in [*newest.pieces, pieces[4], running]]
    )
    assert sorted(p.name for p in folder.iterdir() if not p.name.startswith("0")) == [
        f".{90:020d}-{99:020d}.log",
        "notes.txt",
    ]
    assert files.prune(5) == ([], 0)
    with pytest.raises(UsageError, match="at least one"):
        files.prune(0)


def test_prune_does_nothing_while_a_kept_snapshot_cannot_be_read(files: BackupFiles) -> None:
    pieces = [files.write_piece(at, bytes(10)) for at in (0, 10)]
    made(files, 1, pieces[:1])
    newest = made(files, 2, pieces)
    Path(files._storage.url(files._snapshot_path(newest.id))).write_text("{}")
    with pytest.raises(StoreDamaged):
        files.prune(1)
    assert (len(files.ids()), len(files.pieces())) == (2, 2)
