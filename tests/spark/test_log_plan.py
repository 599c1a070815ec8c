"""Which bytes are read: every record of a range once, none twice, however it is split."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.store.replicas import fill
from tests.store.world import SMALL

from epochmq.base.errors import NotFound, StoreDamaged
from epochmq.runtime.disk import RealDisk
from epochmq.spark import log_plan
from epochmq.spark.log_files import StoreDirectory
from epochmq.spark.log_options import LogOptions, parse_log_options
from epochmq.spark.log_plan import find_replicas, plan
from epochmq.store.epochs import EpochFile

from .logs import WALL, written

BIG = replace(SMALL, replicated=True, commit_log_file_bytes=1 << 17, consume_queue_file_bytes=4000)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Epochs 1, 2, 3; what 3 wrote is not confirmed; something was cut."""
    root = tmp_path_factory.mktemp("plan")
    store = written(root, 200, BIG)
    epochs = EpochFile(RealDisk(str(root)))
    epochs.append(1, 0)
    for epoch in (2, 3):
        store.limit_confirm(store.pointers.appended)
        epochs.append(epoch, store.pointers.appended)
        fill(store, 100, epoch)
        store.limit_confirm(store.pointers.confirmed)
    end = store.pointers.appended
    fill(store, 5, 9)
    store.truncate(end, "the master said so", epochs=epochs.entries)
    store.sync()
    store.close(WALL)
    return root


Read = Callable[..., LogOptions]


@pytest.fixture
def options(root: Path) -> Read:
    def read(**given: str) -> LogOptions:
        made = parse_log_options({"path": str(root), **given})
        return replace(made, split_bytes=20_000)

    return read


def records(made: LogOptions) -> list[int]:
    """Offsets of all records that the splits give, in their order."""
    found: list[int] = []
    for split in plan(find_replicas(made), made):
        with StoreDirectory(Path(split.file.path).parent) as replica:
            offsets = [offset for offset, _ in replica.records(split.start, split.stop)]
        found += [offset for offset in offsets if split.low <= offset < split.high]
    return found


def all_records(root: Path) -> list[int]:
    with StoreDirectory(root) as replica:
        return [offset for offset, _ in replica.records(0, replica.end)]


def test_by_default_what_is_confirmed_is_read_and_no_more(root: Path, options: Read) -> None:
    confirmed = StoreDirectory(root).confirmed
    assert confirmed is not None
    wanted = [offset for offset in all_records(root) if offset < confirmed]
    assert records(options()) == records(options(toOffset="confirmed")) == wanted
    assert all(split.stop <= confirmed for split in plan(find_replicas(options()), options()))


def test_the_end_is_all_there_is(root: Path, options: Read) -> None:
    assert records(options(toOffset="end")) == all_records(root)
    assert len(plan(find_replicas(options()), options(toOffset="end"))) > 5


@pytest.mark.parametrize(("low", "high"), [(0, 1), (1, 999), (12_345, 77_777), (90_000, 1 << 40)])
def test_a_range_holds_what_begins_in_it(root: Path, options: Read, low: int, high: int) -> None:
    made = options(fromOffset=str(low), toOffset=str(high))
    assert all(split.start < high and low < split.stop for split in plan(find_replicas(made), made))
    assert records(made) == [offset for offset in all_records(root) if low <= offset < high]


def test_epochs_are_ranges(root: Path, options: Read) -> None:
    spans = {epoch: (start, end) for epoch, start, end in StoreDirectory(root).epochs}
    low, high = spans[2]
    assert records(options(epoch="2")) == [at for at in all_records(root) if low <= at < high]
    assert records(options(epoch="1,3", toOffset="end")) == [
        at for at in all_records(root) if not low <= at < high
    ]
    assert records(options(epoch="7")) == []


def test_what_was_cut_is_read_when_asked_for(root: Path, options: Read) -> None:
    made = options(include="cut")
    (split,) = plan(find_replicas(made), made)
    assert (split.file.cut, split.file.epoch) == (True, 3)
    assert split.start == StoreDirectory(root).end
    everything = options(include="all")
    assert len(plan(find_replicas(everything), everything)) == 1 + len(
        plan(find_replicas(options()), options())
    )
    assert plan(find_replicas(made), options(include="cut", epoch="2")) == []


def test_globs_and_lists_name_replicas(root: Path, tmp_path: Path) -> None:
    for name in ("b1", "b0", "other"):
        (tmp_path / name / "commitlog").mkdir(parents=True)
    (tmp_path / "b2").write_text("a file")
    made = parse_log_options({"path": f"{tmp_path}/b*, {tmp_path}/b0, {root}"})
    assert [replica.name for replica in find_replicas(made)] == [
        f"{tmp_path}/b0",
        f"{tmp_path}/b1",
        str(root),
    ]
    with pytest.raises(NotFound, match="no directory matches"):
        find_replicas(parse_log_options({"path": f"{tmp_path}/z*"}))
    with pytest.raises(NotFound, match="there is no directory"):
        find_replicas(parse_log_options({"path": f"{tmp_path}/z"}))


def test_too_many_directories_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_plan, "REPLICAS_MAX", 1)
    for name in "ab":
        (tmp_path / name / "commitlog").mkdir(parents=True)
    with pytest.raises(NotFound, match="the most is 1"):
        find_replicas(parse_log_options({"path": f"{tmp_path}/*"}))


def test_a_missing_file_fails_at_once_or_is_reported(tmp_path: Path) -> None:
    written(tmp_path, 60).close(WALL)
    files = StoreDirectory(tmp_path).files
    Path(files[3].path).unlink()
    given = {"path": str(tmp_path)}
    made = parse_log_options(given)
    with pytest.raises(StoreDamaged, match=r"in no file.*onCorrupt=skip"):
        plan(find_replicas(made), made)
    skipping = parse_log_options({**given, "onCorrupt": "skip"})
    assert not any(split.damaged for split in plan(find_replicas(skipping), skipping))
    reporting = parse_log_options({**given, "onCorrupt": "report"})
    damaged = [split for split in plan(find_replicas(reporting), reporting) if split.damaged]
    assert [(d.start, d.end) for s in damaged for d in s.damaged] == [
        (files[3].start, files[3].end)
    ]


def test_what_is_confirmed_must_be_known_when_it_is_asked_for(tmp_path: Path) -> None:
    written(tmp_path, 5).close(WALL)
    (tmp_path / "checkpoint").unlink()
    made = parse_log_options({"path": str(tmp_path)})
    assert plan(find_replicas(made), made)
    made = parse_log_options({"path": str(tmp_path), "toOffset": "confirmed"})
    with pytest.raises(NotFound, match="no checkpoint file says what is confirmed"):
        plan(find_replicas(made), made)


def test_confirmed_bytes_that_are_not_there_are_never_passed_over_in_silence(
    tmp_path: Path,
) -> None:
    """A copy that ends too early, or whose last record is damaged."""
    written(tmp_path, 60).close(WALL)
    with StoreDirectory(tmp_path) as replica:
        end, last = replica.end, replica.files[-1]
        offset = list(replica.records(0, end))[-1][0]
    os.truncate(last.path, end - 10 - last.start)
    given = {"path": str(tmp_path)}
    for to in ("", "confirmed", "end"):
        made = parse_log_options({**given, "toOffset": to})
        with pytest.raises(StoreDamaged, match="confirmed, but no sound record is there"):
            plan(find_replicas(made), made)
        reporting = parse_log_options({**given, "toOffset": to, "onCorrupt": "report"})
        damaged = [d for s in plan(find_replicas(reporting), reporting) for d in s.damaged]
        assert [(d.start, d.end) for d in damaged] == [(offset, end)]
    early = parse_log_options({**given, "toOffset": str(offset)})
    assert plan(find_replicas(early), early)


def test_a_torn_record_behind_the_end_is_told_with_the_end_only(tmp_path: Path) -> None:
    written(tmp_path, 5).close(WALL)
    with StoreDirectory(tmp_path) as replica:
        end, last = replica.end, replica.files[-1]
    with open(last.path, "r+b") as file:
        file.seek(end - last.start)
        file.write(b"torn")
    for to, count in (("", 0), ("end", 1)):
        made = parse_log_options({"path": str(tmp_path), "onCorrupt": "report", "toOffset": to})
        damaged = [d for s in plan(find_replicas(made), made) for d in s.damaged]
        assert [(d.start, d.end) for d in damaged] == [(end, end + 4)] * count
