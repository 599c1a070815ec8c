"""A store directory read from outside: every record, live or stopped, and not a byte changed."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.store.replicas import fill, log_bytes
from tests.store.world import SMALL

from epochmq.base.errors import NotFound, StoreInUse, UsageError
from epochmq.runtime.disk import RealDisk
from epochmq.spark.log_files import StoreDirectory, list_cut
from epochmq.spark.log_scan import LogDamage
from epochmq.store.draft import file_name
from epochmq.store.epochs import EpochFile
from epochmq.store.store import Store

from .logs import WALL, image, snapshot, written

REPLICATED = replace(SMALL, replicated=True)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return written(tmp_path, 60)


def offsets_of(store: Store) -> list[int]:
    found, at = [], store.pointers.start
    while (record := store.message_at(at)) is not None or at < store.pointers.appended:
        if record is None:  # a filler
            at = at - at % SMALL.commit_log_file_bytes + SMALL.commit_log_file_bytes
            continue
        found.append(at)
        at += len(record)
    return found


def test_a_store_that_runs_is_read_whole(store: Store, tmp_path: Path) -> None:
    with StoreDirectory(tmp_path) as replica:
        assert (replica.start, replica.end) == (0, store.pointers.appended)
        assert [offset for offset, _ in replica.records(0, replica.end)] == offsets_of(store)
        assert bytes(replica.raw(0, replica.end)) == log_bytes(store)
        assert len(replica.files) > 5
        assert replica.gaps() == []
        assert replica.tail is None
        assert not replica.stopped_cleanly
    store.close(WALL)


def test_reading_changes_nothing_and_needs_no_lock(store: Store, tmp_path: Path) -> None:
    store.close(WALL)
    lock = RealDisk(str(tmp_path)).lock("lock")
    before = snapshot(tmp_path)
    with StoreDirectory(tmp_path) as replica:
        assert replica.stopped_cleanly
        assert replica.confirmed == replica.end
        assert list(replica.records(0, replica.end))
        assert (replica.epochs, replica.tail) == ([], None)
    assert snapshot(tmp_path) == before
    lock.release()


def test_a_directory_that_may_not_be_written_is_read(store: Store, tmp_path: Path) -> None:
    store.close(WALL)
    opened: list[int] = []
    real = os.open

    def watched(path: str, flags: int, *more: int) -> int:
        opened.append(flags)
        return real(path, flags, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", watched)
        with StoreDirectory(tmp_path) as replica:
            assert list(replica.records(0, replica.end))
    assert opened
    assert not any(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) for flags in opened)


@pytest.mark.parametrize("inside", [0, 1, 50])
def test_records_begin_with_the_first_one_at_or_behind_the_start(
    store: Store, tmp_path: Path, inside: int
) -> None:
    offsets = offsets_of(store)
    with StoreDirectory(tmp_path) as replica:
        low, high = offsets[20] + inside, offsets[40]
        wanted = [at for at in offsets if low <= at < high]
        assert [offset for offset, _ in replica.records(low, high)] == wanted
    store.close(WALL)


def test_raw_bytes_of_one_file_are_no_copy_and_those_of_none_are_refused(
    store: Store, tmp_path: Path
) -> None:
    with StoreDirectory(tmp_path) as replica:
        assert replica.raw(10, 20).readonly
        assert len(replica.raw(4000, 4200)) == 200
        with pytest.raises(UsageError, match="is in no file"):
            replica.raw(0, 1 << 40)
    store.close(WALL)


def test_borders_are_records_near_the_places_asked_for(tmp_path: Path) -> None:
    big = replace(SMALL, commit_log_file_bytes=1 << 18, consume_queue_file_bytes=2000)
    store = written(tmp_path, 300, big)
    store.close(WALL)
    with StoreDirectory(tmp_path) as replica:
        borders = replica.borders(replica.files[0], 20_000)
        offsets = [offset for offset, _ in replica.records(0, replica.end)]
        assert len(borders) > 3
        assert set(borders) <= set(offsets)
        assert all(b - a >= 20_000 for a, b in zip([0, *borders], borders, strict=False))
    for path in (tmp_path / "consumequeue").rglob("*"):
        if path.is_file():
            path.write_bytes(b"\xff" * path.stat().st_size)
    with StoreDirectory(tmp_path) as replica:
        assert replica.borders(replica.files[0], 20_000) == []
        assert [offset for offset, _ in replica.records(0, replica.end)] == offsets


def test_epochs_and_what_was_cut_are_told(tmp_path: Path) -> None:
    store = written(tmp_path, 20, REPLICATED)
    epochs = EpochFile(RealDisk(str(tmp_path)))
    epochs.append(3, 0)
    middle = store.pointers.appended
    epochs.append(5, middle)
    store.limit_confirm(middle)
    fill(store, 10, 2)
    lost = log_bytes(store)[middle:]
    store.truncate(middle, "the master said so", epochs=epochs.entries)
    store.close(WALL)
    with StoreDirectory(tmp_path) as replica:
        assert replica.epochs[0] == (3, 0, middle)
        assert [file.epoch for file in replica.cut_files] == [5] * len(replica.cut_files)
        assert b"".join(bytes(replica.data(f)) for f in replica.cut_files) == lost
        assert replica.confirmed == middle


def test_the_log_ends_before_a_torn_record_and_the_rest_is_told(tmp_path: Path) -> None:
    written(tmp_path, 5).close(WALL)
    with StoreDirectory(tmp_path) as replica:
        end, last = replica.end, replica.files[-1]
    with open(last.path, "r+b") as file:
        file.seek(end - last.start)
        file.write(image(1, 1).data[:60])
    with StoreDirectory(tmp_path) as replica:
        assert replica.end == end
        assert replica.tail == LogDamage(end, end + 60, "no record behind the log's end")


def test_a_log_that_ends_with_a_full_file_ends_behind_its_filler(tmp_path: Path) -> None:
    log = image(9, 3)
    folder = tmp_path / "commitlog"
    folder.mkdir()
    (folder / file_name(log.base)).write_bytes(log.data)
    (folder / file_name(log.base + len(log.data))).write_bytes(bytes(len(log.data)))
    with StoreDirectory(tmp_path) as replica:
        assert replica.end == log.base + len(log.data)
        assert list(replica.records(0, replica.end)) == log.records


def test_a_missing_file_is_a_gap(store: Store, tmp_path: Path) -> None:
    store.close(WALL)
    files = StoreDirectory(tmp_path).files
    os.remove(files[2].path)
    with StoreDirectory(tmp_path) as replica:
        (gap,) = replica.gaps()
        assert (gap.start, gap.end) == (files[2].start, files[2].end)
        offsets = [offset for offset, _ in replica.records(0, replica.end)]
        assert not any(gap.start <= offset < gap.end for offset in offsets)
        assert offsets[-1] > gap.end


def test_a_file_that_was_copied_in_part_is_a_gap_too(store: Store, tmp_path: Path) -> None:
    store.close(WALL)
    file = StoreDirectory(tmp_path).files[1]
    os.truncate(file.path, 1000)
    with StoreDirectory(tmp_path) as replica:
        assert [(g.start, g.end) for g in replica.gaps()] == [(file.start + 1000, file.end)]


def test_the_log_folder_alone_will_do(store: Store, tmp_path: Path) -> None:
    end = store.pointers.appended
    store.close(WALL)
    with StoreDirectory(tmp_path / "commitlog") as replica:
        assert (replica.end, replica.epochs, replica.cut_files) == (end, [], [])


def test_what_is_no_store_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no directory"):
        StoreDirectory(tmp_path / "nowhere")
    with pytest.raises(NotFound, match="is not a store: it has neither"):
        StoreDirectory(tmp_path)


def test_an_empty_store_has_no_bytes(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    with StoreDirectory(tmp_path) as replica:
        assert (replica.start, replica.end, replica.epochs) == (0, 0, [])
        assert list(replica.records(0, 1)) == []
        assert replica.tail is None


def test_names_in_cut_say_epoch_and_offset(tmp_path: Path) -> None:
    for name in ("7-100.log", "0-50.log", "7-100.1.log", "notes.txt", "x-1.log"):
        (tmp_path / name).write_bytes(b"abc")
    found = [(file.start, file.epoch) for file in list_cut(tmp_path)]
    assert found == [(50, None), (100, 7), (100, 7)]


def test_the_lock_that_a_reader_must_not_take_is_the_one_the_store_holds(
    store: Store, tmp_path: Path
) -> None:
    with pytest.raises(StoreInUse):
        RealDisk(str(tmp_path)).lock("lock")
    store.close(WALL)
