"""A cluster that was backed up under load comes back on empty machines, with all it promised."""

import asyncio
import time
from collections import Counter
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from tests.store.world import HOST

from epochmq import (
    Message,
    MessageQueue,
    PushConsumer,
    StoredMessage,
    TransactionProducer,
    TransactionState,
    errors,
)
from epochmq.backup import create_backup
from epochmq.backup import restore_backup as module
from epochmq.backup.backup_files import BackupFiles
from epochmq.base.errors import EnvironmentFault, StoreDamaged, UsageError
from epochmq.client.aio import Admin
from epochmq.client.sync import Producer
from epochmq.runtime.disk import RealDisk
from epochmq.runtime.log_file_writer import LogFileWriter
from epochmq.store.options import StoreOptions
from epochmq.store.store import Store
from epochmq.store.store_files import UNFINISHED_RESTORE
from epochmq.testing import MiniCluster

from .backing import TOPIC, back_up, backups, numbers, restore, send

HOUR_S = 3_600


class Listener:
    """Leaves every transaction open, and ends it as `answer` says when it is checked."""

    def __init__(self, answer: TransactionState = TransactionState.UNKNOWN) -> None:
        self.answer = answer
        self.checked: list[bytes] = []

    def execute_local(self, message: Message, arg: Any) -> TransactionState:
        return TransactionState.COMMIT if arg == "commit" else TransactionState.UNKNOWN

    def check(self, message: StoredMessage) -> TransactionState:
        self.checked.append(message.body)
        return self.answer


async def begin_transactions(cluster: MiniCluster) -> None:
    async with TransactionProducer(cluster.namesrv, "tx", Listener()) as producer:
        await producer.send_in_transaction(Message("tx", b"open"))
        await producer.send_in_transaction(Message("tx", b"done"), "commit")


async def consume(cluster: MiniCluster, count: int, topic: str = TOPIC) -> list[bytes]:
    found: list[bytes] = []
    async with PushConsumer(cluster.namesrv, "workers", start="first") as consumer:
        await consumer.subscribe(topic)
        async for message in consumer:
            found.append(message.body)
            if len(found) == count:
                return found
    return found


async def offsets(cluster: MiniCluster, group: str = "workers") -> dict[MessageQueue, int]:
    async with Admin(cluster.namesrv) as admin:
        progress, _ = await admin.progress(group, TOPIC)
        return {queue: each.consumer_offset for queue, each in progress.items()}


@pytest.mark.parametrize("replicas", [1, 3])
def test_messages_offsets_transactions_and_delays_come_back(tmp_path: Path, replicas: int) -> None:
    files = backups(tmp_path / "backups")
    stop, acknowledged = Event(), list[int]()

    def load(namesrv: str) -> None:
        with Producer(namesrv, "load") as producer:
            while not stop.is_set():
                producer.send(Message("load", b"%d" % len(acknowledged)), timeout_ms=10_000)
                acknowledged.append(len(acknowledged))

    with MiniCluster(replicas, directory=tmp_path / "origin") as origin:
        origin.create_topic("tx", type="TRANSACTION")
        send(origin, 0, 100)
        asyncio.run(consume(origin, 60))
        asyncio.run(begin_transactions(origin))
        with Producer(origin.namesrv, "P") as producer:
            producer.send(Message("later", b"timed", delay_ms=HOUR_S * 1000))
            producer.send(Message("later", b"level", delay_level=18))  # two hours
            producer.send(Message("later", b"soon", delay_ms=1000))
        origin.advance_clock(60)
        delivered = wait_for(origin, "later", [b"soon"])
        loading = Thread(target=load, args=(origin.namesrv,))
        loading.start()
        try:
            while len(acknowledged) < 200:
                time.sleep(0.001)
            before = len(acknowledged)
            asyncio.run(back_up(origin, files))
            during = len(acknowledged)
        finally:
            stop.set()
            loading.join()
        assert during > before
        committed = asyncio.run(offsets(origin))
        stored = {(m.queue_id, m.queue_offset): m.body for m in origin.messages("load")}
    assert sum(committed.values()) == 59  # the loop ended in the handling of the last one

    restore(files, tmp_path / "again", replicas)
    listener = Listener(TransactionState.COMMIT)
    with MiniCluster(replicas, directory=tmp_path / "again") as again:
        assert numbers(again) == list(range(100))
        found = {(m.queue_id, m.queue_offset): m.body for m in again.messages("load")}
        assert found.items() <= stored.items()
        assert {int(body) for body in found.values()} >= set(range(before))
        assert asyncio.run(offsets(again)) == committed
        assert asyncio.run(keys(again)) == [1] * 100
        assert [m.body for m in again.messages("tx")] == [b"done"]
        again.advance_clock(60)
        assert wait_for(again, "later", [b"soon"]) == delivered
        asyncio.run(answer_checks(again, listener))
        wait_for(again, "tx", [b"done", b"open"])
        assert listener.checked == [b"open"]
        again.advance_clock(3 * HOUR_S)
        wait_for(again, "later", [b"level", b"soon", b"timed"])
        send(again, 100, 20)
        assert len(asyncio.run(consume(again, 120 - sum(committed.values())))) >= 40
        for number in range(1, replicas + 1):
            name = f"broker-{number}"
            again.stop_server(name)
            assert not (tmp_path / "again" / name / UNFINISHED_RESTORE).exists()


def messages(cluster: MiniCluster, topic: str) -> list[StoredMessage]:
    """The messages of a topic; none while the clock's jump made the master unsure."""
    try:
        return cluster.messages(topic)
    except (errors.Refused, errors.NotReachable):
        return []


def wait_for(cluster: MiniCluster, topic: str, bodies: list[bytes]) -> list[StoredMessage]:
    """The messages of a topic when it has these; more or others are an error."""
    until = time.monotonic() + 20
    while True:
        found = sorted(messages(cluster, topic), key=lambda m: m.body)
        assert not Counter(m.body for m in found) - Counter(bodies)
        if len(found) == len(bodies):
            return found
        assert time.monotonic() < until, f"{found} instead of {bodies}"
        time.sleep(0.02)


async def answer_checks(cluster: MiniCluster, listener: Listener) -> None:
    async with TransactionProducer(cluster.namesrv, "tx", listener, topics=["tx"]):
        until = time.monotonic() + 20
        cluster.advance_clock(60)
        while len(await asyncio.to_thread(messages, cluster, "tx")) < 2:
            assert time.monotonic() < until, "the open transaction was not checked"
            await asyncio.sleep(0.1)


async def keys(cluster: MiniCluster) -> list[int]:
    """How many messages are found by the key of each message."""
    async with Admin(cluster.namesrv) as admin:
        return [len(await admin.messages_by_key(TOPIC, f"k{n}")) for n in range(100)]


# Targets -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> BackupFiles:
    """A backup of 300 messages in several log files."""
    base = tmp_path_factory.mktemp("backup")
    options = {"mappedFileSizeCommitLog": "65536"}
    found = backups(base / "backups")
    with (
        pytest.MonkeyPatch.context() as patch,
        MiniCluster(directory=base / "origin", options=options) as origin,
    ):
        patch.setattr(create_backup, "PIECE_BYTES", 30_000)
        patch.setattr(create_backup, "BULK_READ_BYTES_MAX", 10_000)
        send(origin, 0, 300, 500)
        asyncio.run(back_up(origin, found))
    return found


SMALL_FILES = {"mappedFileSizeCommitLog": "65536"}


def test_a_directory_that_holds_something_is_refused(files: BackupFiles, tmp_path: Path) -> None:
    (tmp_path / "broker-1").mkdir()
    (tmp_path / "broker-1" / "precious").write_text("x")
    with pytest.raises(UsageError, match=r"broker-1 is not empty \(it holds precious\)"):
        restore(files, tmp_path)
    assert [p.name for p in (tmp_path / "broker-1").iterdir()] == ["precious"]


def test_a_restored_store_is_not_overwritten(files: BackupFiles, tmp_path: Path) -> None:
    restore(files, tmp_path)
    with pytest.raises(UsageError, match="is not empty"):
        restore(files, tmp_path)


def test_a_new_file_system_with_lost_and_found_is_empty(files: BackupFiles, tmp_path: Path) -> None:
    (tmp_path / "broker-1" / "lost+found").mkdir(parents=True)
    restore(files, tmp_path)


def test_a_log_on_another_device(files: BackupFiles, tmp_path: Path) -> None:
    snapshot = files.latest()
    assert snapshot is not None
    log = tmp_path / "fast" / "log"
    module.restore_backup(files, snapshot, tmp_path / "again" / "broker-1", log)
    assert not (tmp_path / "again" / "broker-1" / "commitlog").exists()
    assert len(list(log.iterdir())) == 1 + snapshot.log_end // 65_536
    with pytest.raises(UsageError, match="log is not empty"):
        module.restore_backup(files, snapshot, tmp_path / "other", log)
    disk = RealDisk(str(tmp_path / "again" / "broker-1"), elsewhere={"commitlog": str(log)})
    store = Store.open(disk, StoreOptions(commit_log_file_bytes=65_536), HOST, 0)
    assert store.pointers.appended == snapshot.log_end
    assert sum(high for _, high in (store.queue_bounds(TOPIC, n) for n in range(8))) == 300
    assert store.verify().problems == []
    store.close(0)


# Crashes -------------------------------------------------------------------------------------


class Crash(Exception):
    """The process dies here."""


@pytest.mark.parametrize("step", ["write", "sync", "table", "checkpoint", "marker"])
def test_an_interrupted_restore_does_not_start_and_begins_again(
    files: BackupFiles, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        if step == "write":
            write, calls = LogFileWriter.write, list[int]()

            def write_once(self: LogFileWriter, *args: Any) -> None:
                calls.append(1)
                if len(calls) > 1:
                    raise Crash
                write(self, *args)

            patch.setattr(LogFileWriter, "write", write_once)
            patch.setattr(module, "SYNC_BYTES", 1)
        elif step == "sync":
            patch.setattr(LogFileWriter, "sync", crash)
        elif step == "table":
            patch.setattr(module, "file_of", crash)
        elif step == "checkpoint":
            patch.setattr(module, "_write_checkpoint", crash)
        else:
            patch.setattr(module.RealDisk, "remove", crash)
        with pytest.raises(Crash):
            restore(files, tmp_path)
    assert (tmp_path / "broker-1" / UNFINISHED_RESTORE).exists()
    with pytest.raises(EnvironmentFault, match="was being restored here"):
        MiniCluster(directory=tmp_path, options=SMALL_FILES).start()
    (tmp_path / "broker-1" / "epochFileCheckpoint.tmp").touch()  # a write that was interrupted
    restore(files, tmp_path)
    with MiniCluster(directory=tmp_path, options=SMALL_FILES) as again:
        assert numbers(again) == list(range(300))


def test_another_log_directory_after_an_interruption_is_refused(
    files: BackupFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = files.latest()
    assert snapshot is not None
    with monkeypatch.context() as patch:
        patch.setattr(module, "_write_checkpoint", lambda *_: (_ for _ in ()).throw(Crash))
        with pytest.raises(Crash):
            module.restore_backup(files, snapshot, tmp_path / "a", tmp_path / "log")
    with pytest.raises(UsageError, match=r"log in .*/log did not end: run it again"):
        module.restore_backup(files, snapshot, tmp_path / "a")
    module.restore_backup(files, snapshot, tmp_path / "a", tmp_path / "log")


@pytest.mark.parametrize("marker", ["intact", "damaged"])
def test_files_of_others_in_the_log_directory_stay(
    files: BackupFiles, tmp_path: Path, marker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = files.latest()
    assert snapshot is not None
    with monkeypatch.context() as patch:
        patch.setattr(module, "_write_checkpoint", lambda *_: (_ for _ in ()).throw(Crash))
        with pytest.raises(Crash):
            module.restore_backup(files, snapshot, tmp_path / "a", tmp_path / "log")
    (tmp_path / "log" / "precious").write_text("x")
    if marker == "damaged":
        (tmp_path / "a" / UNFINISHED_RESTORE).write_text("{")
    with pytest.raises(UsageError, match=r"holds precious|because it is damaged"):
        module.restore_backup(files, snapshot, tmp_path / "a", tmp_path / "log")
    assert (tmp_path / "log" / "precious").read_text() == "x"
    assert (tmp_path / "log" / ("0" * 20)).exists()


def test_a_full_disk_is_one_clear_error(
    files: BackupFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:

        def full(*_: object) -> int:
            raise OSError(28, "No space left on device")

        patch.setattr("os.pwrite", full)
        with pytest.raises(EnvironmentFault, match="No space left on device"):
            restore(files, tmp_path)
    restore(files, tmp_path)


# Damage --------------------------------------------------------------------------------------


def test_a_damaged_piece_is_named(files: BackupFiles, tmp_path: Path) -> None:
    snapshot = files.latest()
    assert snapshot is not None
    piece = snapshot.pieces[-1]
    path = Path(files._storage.url(files._piece_path(piece.start, piece.end)))
    data = path.read_bytes()
    try:
        path.write_bytes(data[:100] + bytes((data[100] ^ 1,)) + data[101:])
        with pytest.raises(StoreDamaged, match=rf"{path.name} is damaged"):
            restore(files, tmp_path)
    finally:
        path.write_bytes(data)
    restore(files, tmp_path)
