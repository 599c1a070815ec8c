"""Checks of backups: each file is looked at, whichever of its bits is flipped."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from epochmq.backup import create_backup
from epochmq.backup.backup_files import BackupFiles
from epochmq.backup.verify_backup import verify_backups
from epochmq.testing import MiniCluster

from .backing import back_up, backups, send


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> BackupFiles:
    found = backups(tmp_path_factory.mktemp("backups"))
    with pytest.MonkeyPatch.context() as patch, MiniCluster() as cluster:
        patch.setattr(create_backup, "PIECE_BYTES", 5_000)
        patch.setattr(create_backup, "BULK_READ_BYTES_MAX", 3_000)
        for first in (0, 50):
            send(cluster, first, 50, 100)
            asyncio.run(back_up(cluster, found))
    return found


def paths(files: BackupFiles) -> list[Path]:
    root = Path(files._storage.url(files._root))
    return sorted(path for path in root.rglob("*") if path.is_file())


def test_sound_backups(files: BackupFiles) -> None:
    found = verify_backups(files)
    assert (found.snapshots, found.pieces, found.problems) == (2, len(files.pieces()), [])
    assert found.log_bytes == files.latest().log_end  # type: ignore[union-attr]
    assert found.pieces > 4


def test_any_flipped_bit_is_found_in_the_file_that_has_it(files: BackupFiles) -> None:
    rng = Random(5)
    for path in paths(files):
        whole = path.read_bytes()
        for _ in range(4):
            data = bytearray(whole)
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            path.write_bytes(data)
            found = verify_backups(files)
            path.write_bytes(whole)
            assert len(found.problems) == 1
            assert path.name in found.problems[0]
    assert verify_backups(files).problems == []


def test_a_piece_that_is_gone_is_named(files: BackupFiles) -> None:
    path = next(path for path in paths(files) if path.suffix == ".log")
    data = path.read_bytes()
    path.unlink()
    assert [path.name in problem for problem in verify_backups(files).problems] == [True]
    path.write_bytes(data)
