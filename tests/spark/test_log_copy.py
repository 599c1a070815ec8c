"""A copy made of an export: the same bytes and epochs, a store that opens, gone on with later."""

import asyncio
import itertools
import json
import os
from pathlib import Path

import pytest
from tests.replication.brokers import STORE, LiveBroker
from tests.store.replicas import log_bytes
from tests.store.world import HOST

from epochmq.base.errors import EnvironmentFault, UsageError
from epochmq.runtime.disk import RealDisk
from epochmq.spark import log_copy
from epochmq.spark.log_copy import LogCopy, copy_log
from epochmq.spark.log_export import LogExport
from epochmq.spark.log_files import StoreDirectory
from epochmq.store.checkpoint import Checkpoint
from epochmq.store.epochs import EpochFile
from epochmq.store.store import Store

from .exporting import BROKER, export_of, masters
from .logs import WALL


async def copied(broker: LiveBroker, directory: Path) -> log_copy.Exported:
    copy = LogCopy(directory, BROKER)
    export = export_of(broker, copy.end, None, copy.entries)
    return await asyncio.to_thread(copy_log, copy, export, BROKER)


async def test_a_copy_is_a_store_of_the_same_log(tmp_path: Path) -> None:
    async with masters(tmp_path / "origin") as broker:
        done = await copied(broker, tmp_path / "copy")
        end, log = broker.end, broker.bytes()
        spans = [(e.epoch, e.start) for e in broker.replication.node.epochs.entries]
    assert (done.start, done.end, done.copied_bytes, done.reconnected) == (0, end, end, 0)
    with StoreDirectory(tmp_path / "copy") as replica:
        assert bytes(replica.raw(0, end)) == log
        assert (replica.end, replica.confirmed) == (end, end)
        assert [(epoch, start) for epoch, start, _ in replica.epochs] == spans
        assert replica.stopped_cleanly
    store = Store.open(RealDisk(str(tmp_path / "copy")), STORE, HOST, WALL)
    assert log_bytes(store) == log
    assert store.verify().problems == []
    assert store.pointers.readable == end
    store.close(WALL)


async def test_a_second_call_brings_what_is_new(tmp_path: Path) -> None:
    async with masters(tmp_path / "origin") as broker:
        first = await copied(broker, tmp_path / "copy")
        assert (await copied(broker, tmp_path / "copy")).copied_bytes == 0
        broker.write(100)
        again = await copied(broker, tmp_path / "copy")
        assert again.copied_bytes == broker.end - first.end
        with StoreDirectory(tmp_path / "copy") as replica:
            assert bytes(replica.raw(0, replica.end)) == broker.bytes()


@pytest.mark.parametrize("ranges", [0, 1, 5])
async def test_a_copy_that_was_broken_off_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranges: int
) -> None:
    monkeypatch.setattr(log_copy, "SYNC_BYTES", 100_000)
    async with masters(tmp_path / "origin") as broker:
        copy = LogCopy(tmp_path / "copy", BROKER)
        export = export_of(broker)

        def some() -> None:
            for piece in itertools.islice(export.ranges(), ranges):
                copy.write(piece, export)

        await asyncio.to_thread(some)
        saved = EpochFile(RealDisk(str(tmp_path / "copy"))).entries
        assert all(entry.start < copy.end for entry in saved)
        done = await copied(broker, tmp_path / "copy")
        assert done.end == broker.end
        with StoreDirectory(tmp_path / "copy") as replica:
            assert bytes(replica.raw(0, replica.end)) == broker.bytes()
            assert [span[:2] for span in replica.epochs] == [
                (e.epoch, e.start) for e in broker.replication.node.epochs.entries
            ]


async def test_the_checkpoint_tells_of_nothing_that_is_not_on_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, write = os.fdatasync, Checkpoint.write

    def synced(fd: int) -> None:
        done.append(os.path.dirname(os.readlink(f"/proc/self/fd/{fd}")))
        sync(fd)

    def told(checkpoint: Checkpoint) -> None:
        assert isinstance(checkpoint._disk, RealDisk)
        if checkpoint._disk.root == str(tmp_path / "copy"):  # the broker writes one of its own
            done.append("checkpoint")
        write(checkpoint)

    async with masters(tmp_path / "origin", 1) as broker:
        monkeypatch.setattr(os, "fdatasync", synced)
        monkeypatch.setattr(Checkpoint, "write", told)
        await copied(broker, tmp_path / "copy")
        monkeypatch.undo()
    folder = tmp_path / "copy" / "commitlog"
    synced_before = done[: done.index("checkpoint")].count(str(folder))
    assert synced_before == len(list(folder.iterdir()))


async def test_an_empty_log_is_copied_too(tmp_path: Path) -> None:
    broker = await LiveBroker(tmp_path / "origin", 1).start()
    await broker.lead(1)
    done = await copied(broker, tmp_path / "copy")
    assert (done.start, done.end) == (0, 0)
    with StoreDirectory(tmp_path / "copy") as replica:
        assert replica.end == 0
    await broker.stop()


def test_nothing_of_anybody_elses_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    with pytest.raises(UsageError, match="is not empty and holds no copy made here"):
        LogCopy(tmp_path / "store", BROKER)
    LogCopy(tmp_path / "copy", "broker-b")
    with pytest.raises(UsageError, match="holds the copy of broker broker-b, not of broker-a"):
        LogCopy(tmp_path / "copy", BROKER)
    assert json.loads((tmp_path / "copy" / log_copy.MARK).read_text()) == {"brokerName": "broker-b"}


async def test_a_disk_that_fails_is_said_in_one_line(tmp_path: Path) -> None:
    async with masters(tmp_path / "origin", 1) as broker:
        copy = LogCopy(tmp_path / "copy", BROKER)
        (tmp_path / "copy" / "commitlog").rmdir()
        (tmp_path / "copy" / "commitlog").write_text("no directory")
        export: LogExport = export_of(broker)
        with pytest.raises(EnvironmentFault, match=r"cannot make .*commitlog"):
            await asyncio.to_thread(copy_log, copy, export, BROKER)
