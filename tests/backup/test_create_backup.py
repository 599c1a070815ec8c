"""A backup of a cluster that runs: what it copies, what it uses again, what it refuses."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from epochmq import errors
from epochmq.backup import backup_source
from epochmq.backup import create_backup as module
from epochmq.backup.backup_files import BackupFiles, open_backups
from epochmq.backup.backup_source import BackupSource
from epochmq.backup.broker_tables import TOPICS, topics_of
from epochmq.backup.create_backup import BackupRun, format_id
from epochmq.backup.verify_backup import verify_backups
from epochmq.base.errors import DiskFull, StoreDamaged, UsageError
from epochmq.client.aio import Admin
from epochmq.runtime.disk import RealDisk
from epochmq.testing import MiniCluster
from epochmq.testing.mini_cluster import CLUSTER, broker_context, call_broker

from .backing import TOPIC, back_up, backups, numbers, restore, send

SMALL_PIECES = 20_000


@pytest.fixture(autouse=True)
def small_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE_BYTES", SMALL_PIECES)
    monkeypatch.setattr(module, "NEAR_BYTES", 1000)
    monkeypatch.setattr(module, "BULK_READ_BYTES_MAX", 7_001)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MiniCluster]:
    options = {"mappedFileSizeCommitLog": "65536"}
    with MiniCluster(directory=tmp_path / "origin", options=options) as made:
        yield made


@pytest.fixture
def files(tmp_path: Path) -> BackupFiles:
    return backups(tmp_path / "backups")


def log_of(files: BackupFiles) -> bytes:
    """The log of the newest snapshot."""
    snapshot = files.latest()
    assert snapshot is not None
    return b"".join(data for _, data in files.read_log(snapshot))


def broker_log(cluster: MiniCluster) -> bytes:
    """The confirmed log of the broker."""
    node = broker_context(cluster)
    disk, end = RealDisk(str(cluster.directory / "broker-1")), node.store.pointers.confirmed
    data = b"".join(disk.read_file(f"commitlog/{name}") or b"" for name in disk.list("commitlog"))
    return data[:end]


def made(cluster: MiniCluster, files: BackupFiles) -> module.Created:
    return asyncio.run(back_up(cluster, files))


# What is copied ------------------------------------------------------------------------------


def test_the_log_and_the_tables_are_copied_once(
    cluster: MiniCluster, files: BackupFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(cluster, 0, 200, 500)
    first = made(cluster, files)
    assert first.copied_bytes == first.snapshot.log_end > 100_000
    assert len(first.snapshot.pieces) > 4
    assert log_of(files) == broker_log(cluster)
    assert TOPIC in topics_of(first.snapshot.tables[TOPICS])

    send(cluster, 200, 50, 500)
    second = made(cluster, files)
    assert second.copied_bytes == second.snapshot.log_end - first.snapshot.log_end
    assert second.snapshot.pieces[: len(first.snapshot.pieces)] == first.snapshot.pieces
    assert log_of(files) == broker_log(cluster)
    assert made(cluster, files).copied_bytes == 0
    assert len(files.ids()) == 3
    assert verify_backups(files).problems == []


def test_an_empty_broker_has_a_backup_too(
    cluster: MiniCluster, files: BackupFiles, tmp_path: Path
) -> None:
    assert made(cluster, files).snapshot.log_end == 0
    restore(files, tmp_path / "again")
    with MiniCluster(directory=tmp_path / "again") as again:
        send(again, 0, 1)


def test_what_retention_deleted_is_no_part_of_a_later_backup(
    cluster: MiniCluster, files: BackupFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(cluster, 0, 300, 500)
    before = made(cluster, files).snapshot
    expire_first_files(cluster, 1)
    send(cluster, 300, 10)
    after = made(cluster, files)
    assert (after.snapshot.log_start, after.lost_bytes) == (65_536, 0)
    assert after.snapshot.pieces[0].start < 65_536 < after.snapshot.pieces[0].end
    assert len(after.snapshot.pieces) < len(before.pieces) + 1
    kept = numbers(cluster)
    restore(files, tmp_path / "again")
    with MiniCluster(directory=tmp_path / "again", options=cluster.options) as again:
        assert numbers(again) == kept


def test_a_gap_that_retention_made_is_reported(cluster: MiniCluster, files: BackupFiles) -> None:
    send(cluster, 0, 20, 500)
    before = made(cluster, files).snapshot
    send(cluster, 20, 300, 500)
    expire_first_files(cluster, 1)
    after = made(cluster, files)
    assert after.lost_bytes == 65_536 - before.log_end
    assert after.snapshot.pieces[0].start == after.snapshot.log_start == 65_536


def expire_first_files(cluster: MiniCluster, count: int) -> None:
    """Let retention delete the oldest files of the log."""
    store = broker_context(cluster).store

    def expire() -> int:
        store.retention.adopt(replace(store.options, delete_batch=count))
        store.retention.by_hand = True
        return store.retention.delete_expired(time.time_ns() // 10**6 + 1000 * 3_600_000)

    until = time.monotonic() + 10
    while call_broker(cluster, expire) != count:  # once the file is synced
        assert time.monotonic() < until
        time.sleep(0.01)


# Another log, damage, crashes ----------------------------------------------------------------


def test_a_backup_of_another_log_is_refused_and_the_old_one_stays(
    cluster: MiniCluster, files: BackupFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(cluster, 0, 50)
    made(cluster, files)
    options = cluster.options
    monkeypatch.setattr(backup_source, "RETRY_FOR_S", 0.2)
    monkeypatch.setattr(module, "COMPARED_BYTES", 1000)
    with MiniCluster(directory=tmp_path / "other", options=options) as other:
        send(other, 0, 20)
        with pytest.raises(UsageError, match=r"another log, which goes on to offset [\d,]+, where"):
            made(other, files)
        send(other, 20, 40)
        with pytest.raises(UsageError, match="backups of another log, which differs before"):
            made(other, files)
    sizes = MiniCluster(directory=tmp_path / "sizes")
    with sizes, pytest.raises(UsageError, match="another log, with log files of 65,536 bytes"):
        made(sizes, files)
    assert len(files.ids()) == 1
    assert verify_backups(files).problems == []


def test_a_damaged_log_is_named_and_not_backed_up(cluster: MiniCluster, files: BackupFiles) -> None:
    send(cluster, 0, 50, 200)
    path = cluster.directory / "broker-1" / "commitlog" / ("0" * 20)
    data = bytearray(path.read_bytes())
    at = data.index(b"25...")
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"X")
    with pytest.raises(StoreDamaged, match=r"log of broker .* is damaged at [\d,]+ \(body checks"):
        made(cluster, files)
    assert files.ids() == []


class Crash(Exception):
    """The process dies here."""


def test_a_crash_at_any_write_leaves_the_older_backups_and_the_next_run_goes_on(
    cluster: MiniCluster, files: BackupFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(cluster, 0, 40, 500)
    first = made(cluster, files).snapshot
    send(cluster, 40, 160, 500)
    write, copied = files._storage.write_whole, []
    for crash_at in range(20):
        left = crash_at

        def write_or_crash(path: str, data: bytes) -> None:
            nonlocal left
            if not left:
                raise Crash
            left -= 1
            write(path, data)

        monkeypatch.setattr(files._storage, "write_whole", write_or_crash)
        try:
            copied.append(made(cluster, files).copied_bytes)
            break
        except Crash:
            assert files.ids() == [first.id]
            assert verify_backups(files).problems == []
    assert crash_at > 0
    # Each run adopts the pieces of the earlier ones, so the last one copies less than a piece.
    assert copied[0] < SMALL_PIECES + 9_000
    assert log_of(files) == broker_log(cluster)


def test_loose_pieces_of_another_log_are_not_used(
    cluster: MiniCluster, files: BackupFiles, tmp_path: Path
) -> None:
    with MiniCluster(directory=tmp_path / "other", options=cluster.options) as other:
        send(other, 0, 30, 100)
        made(other, files)
    for each in files.ids():
        files._storage.remove(files._snapshot_path(each))
    send(cluster, 0, 60, 100)
    made(cluster, files)
    assert log_of(files) == broker_log(cluster)
    assert verify_backups(files).problems == []


def test_a_full_disk_is_one_clear_error(
    cluster: MiniCluster, files: BackupFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(cluster, 0, 10)

    def full(path: str, data: bytes) -> None:
        raise DiskFull(f"no space is left at {path}")

    monkeypatch.setattr(files._storage, "write_whole", full)
    with pytest.raises(DiskFull, match="no space is left"):
        made(cluster, files)


# Time and masters ----------------------------------------------------------------------------


def test_ids_increase_although_the_clock_went_back(
    cluster: MiniCluster, files: BackupFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = made(cluster, files).snapshot.id

    class Earlier(module.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return module.datetime(2020, 1, 1, tzinfo=tz)

    monkeypatch.setattr(module, "datetime", Earlier)
    second, third = made(cluster, files).snapshot.id, made(cluster, files).snapshot.id
    assert first < second < third
    assert files.ids() == [first, second, third]


def test_the_form_of_an_id() -> None:
    when = module.datetime(2026, 11, 28, 9, 5, 7, 45_999)
    assert format_id(when) == "20261128T090507.045Z"


def test_a_failover_during_a_backup(
    tmp_path: Path, files: BackupFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MiniCluster(3) as cluster:
        send(cluster, 0, 200, 500)
        write, killed = files.write_piece, list[str]()

        def write_piece(start: int, data: bytes) -> Any:
            if start and not killed:
                killed.append(cluster.kill("master"))
            return write(start, data)

        monkeypatch.setattr(files, "write_piece", write_piece)
        made(cluster, files)
        assert killed
        sent = numbers(cluster)
    restore(files, tmp_path / "again", 3)
    with MiniCluster(3, directory=tmp_path / "again") as again:
        assert numbers(again) == sent == list(range(200))


def test_a_topic_deleted_between_the_tables_takes_its_progress_along(
    cluster: MiniCluster, files: BackupFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(cluster, 0, 10)
    send(cluster, 0, 10, topic="gone")
    copy, deleted = BackupRun._copy, list[str]()

    async def copy_after_deletion(self: BackupRun, target: int) -> None:
        if not deleted and (await self._source.bounds()).confirmed == target:
            async with Admin(cluster.namesrv) as admin:
                deleted.extend(await admin.delete_topic("gone") or ["gone"])
        await copy(self, target)

    monkeypatch.setattr(BackupRun, "_copy", copy_after_deletion)
    tables = made(cluster, files).snapshot.tables
    assert deleted
    assert "gone" not in topics_of(tables[TOPICS])


# Wrong brokers -------------------------------------------------------------------------------


def test_an_unknown_group_is_reported_soon(
    cluster: MiniCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def other() -> None:
        async with Admin(cluster.namesrv) as admin:
            storage = open_backups(str(tmp_path / "b"))
            source = BackupSource(admin, CLUSTER, "other")
            await module.create_backup(source, BackupFiles(storage, CLUSTER, "other"))

    monkeypatch.setattr(backup_source, "FIRST_RETRY_FOR_S", 0.2)
    with pytest.raises(errors.NotReachable, match="broker group other has no master now"):
        asyncio.run(other())
