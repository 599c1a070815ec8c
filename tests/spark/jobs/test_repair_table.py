"""What `repair` restores: the exact bytes from a copy, the exact rows from the topics."""

import shutil
from pathlib import Path

import pytest
from tests.spark.jobs.damage import FORMATS, archived, files, flips
from tests.spark.jobs.lake import BROKER, FakeCluster, content
from tests.tiers import FIRST_SEED, choose

from epochmq.base.errors import EnvironmentFault, StoreDamaged, UsageError
from epochmq.model.topic import MessageQueue
from epochmq.spark import spark_cluster
from epochmq.spark.jobs.archive_run import TaskSource
from epochmq.spark.jobs.archive_task import Range
from epochmq.spark.jobs.job_report import CheckpointInUse, CheckpointLock
from epochmq.spark.jobs.repair_table import RepairOptions, repair, uncovered
from epochmq.spark.jobs.verify_table import VerifyOptions, verify
from epochmq.tables.archive_rows import Span
from epochmq.tables.opening import open_table

FLIPS = choose(sample=25, soak=2_000)
SOURCE = TaskSource("127.0.0.1:1", 1000)


@pytest.fixture(params=FORMATS)
def format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def whole_bytes(place: Path) -> dict[str, bytes]:
    """Every file of the archive and its bytes, without damaged ones that a repair kept."""
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in files(place)
        if ".damaged-" not in path.name
    }


@pytest.mark.timeout(7200)
def test_a_copy_restores_every_flipped_bit(tmp_path: Path, format: str) -> None:
    place, copy = tmp_path / "table", tmp_path / "copy"
    archived(place, format)
    shutil.copytree(place, copy)
    wanted = whole_bytes(place)
    for flip in flips(place, FLIPS, FIRST_SEED):
        report = repair(RepairOptions(str(place), str(copy)))
        assert report.status == "done", flip
        assert whole_bytes(place) == wanted, flip
        assert verify(VerifyOptions(str(place))).status == "sound", flip


def test_a_damaged_copy_restores_nothing(tmp_path: Path, format: str) -> None:
    place, copy = tmp_path / "table", tmp_path / "copy"
    archived(place, format)
    path = next(path for path in files(place) if path.suffix == ".parquet")
    path.write_bytes(path.read_bytes()[:-1])
    shutil.copytree(place, copy)
    report = repair(RepairOptions(str(place), str(copy)))
    assert report.status == "damaged"
    assert len(report.details["notRestored"]) == 1  # type: ignore[arg-type]


def test_metadata_is_restored_from_a_copy_only(tmp_path: Path, format: str) -> None:
    place = tmp_path / "table"
    archived(place, format)
    meta = [p for p in files(place) if p.suffix == ".json"][-1]
    meta.write_bytes(meta.read_bytes()[:-1] + b" ")
    with pytest.raises(StoreDamaged, match="no copy has the bytes that were written"):
        repair(RepairOptions(str(place), source=SOURCE))


class Brokers(FakeCluster):
    """The brokers that a repair reads from, in place of the client."""

    def __call__(self, *_args: object, **_options: object) -> "Brokers":
        return self

    def __enter__(self) -> "Brokers":
        return self

    def __exit__(self, *_exception: object) -> None:
        pass

    def bounds(self, topic: str, *, master: bool) -> dict[MessageQueue, tuple[int, int]]:
        assert master
        return self.bounds_of([topic])

    def read(self, queue: MessageQueue, start: int, end: int, **_more: object) -> list[object]:
        low = self.topics[queue.topic].low[queue.queue_id]
        assert start >= low
        chunks = self.fetch(Range(queue, start, end))
        return [type("Chunk", (), {"records": each}) for each in chunks]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def brokers(place: Path, format: str, monkeypatch: pytest.MonkeyPatch) -> Brokers:
    made = archived(place, format)
    brokers = Brokers(*made.topics.values())
    monkeypatch.setattr(spark_cluster, "Cluster", brokers)
    return brokers


def damage(place: Path) -> Path:
    """One data file loses its middle."""
    path = next(path for path in files(place) if path.suffix == ".parquet")
    text = path.read_bytes()
    path.write_bytes(text[:100] + bytes(50) + text[150:])
    return path


def test_the_topics_restore_rows(place: Path, brokers: Brokers) -> None:
    wanted = content(str(place))
    damaged = damage(place)
    report = repair(RepairOptions(str(place), source=SOURCE))
    assert report.status == "done"
    assert content(str(place)) == wanted
    assert verify(VerifyOptions(str(place))).status == "sound"
    assert damaged.exists(), "its bytes are kept until a vacuum"
    assert repair(RepairOptions(str(place), source=SOURCE)).rows == 0


def test_rows_that_no_broker_has_are_named(place: Path, brokers: Brokers) -> None:
    before = content(str(place))
    damage(place)
    brokers.topics["T"].low[:] = [2, 13]
    report = repair(RepairOptions(str(place), source=SOURCE))
    assert report.status == "damaged"
    assert len(report.details["notRestored"]) == 1  # type: ignore[arg-type]
    assert report.details["lost"]
    report = repair(RepairOptions(str(place), source=SOURCE, partial=True))
    assert report.status == "done"
    lost = before - content(str(place))
    assert 0 < lost.total() < before.total()
    problems = verify(VerifyOptions(str(place))).details["problems"]
    assert isinstance(problems, list)
    assert all("missing: " in text for text in problems)


def test_what_cannot_be_repaired(place: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name a copy of the table by --from"):
        repair(RepairOptions(str(place)))
    archived(place, "parquet")
    with (
        CheckpointLock(place / "_checkpoint", "archive"),
        pytest.raises(CheckpointInUse, match="is in use by job archive"),
    ):
        repair(RepairOptions(str(place), str(tmp_path)))
    damage(place)
    planned = repair(RepairOptions(str(place), str(tmp_path)), dry_run=True)
    assert planned.status == "dry-run"
    assert len(planned.details["damagedFiles"]) == 1  # type: ignore[arg-type]


def test_an_archive_that_began_later_is_not_filled_up(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic has messages that the archive never had; which ones, nothing tells."""
    made = archived(place, "iceberg", count=0)
    brokers = Brokers(*made.topics.values())
    monkeypatch.setattr(spark_cluster, "Cluster", brokers)
    for path in files(place):
        if path.suffix == ".parquet":
            path.write_bytes(path.read_bytes()[:-1])
    table = open_table(str(place))
    mark = table.mark
    assert mark is not None
    brokers.topics["T"].add(2)
    ends = {"T": {name: end + 2 for name, end in mark.offsets["T"].items()}}
    table.claim(mark.app, ends)  # without the begins, as older versions did
    with pytest.raises(EnvironmentFault, match="did not begin at its first message"):
        repair(RepairOptions(str(place), source=SOURCE))


def test_digests_of_older_tables_are_added(tmp_path: Path) -> None:
    archived(tmp_path, "delta")
    shutil.rmtree(tmp_path / "_digests")
    assert verify(VerifyOptions(str(tmp_path))).details["withoutDigest"] == 6
    repair(RepairOptions(str(tmp_path), source=SOURCE))
    assert verify(VerifyOptions(str(tmp_path))).details["withoutDigest"] == 0


def test_what_no_span_contains() -> None:
    queue = MessageQueue("T", BROKER, 0)
    spans = [Span(queue, 3, 5), Span(queue, 4, 8), Span(queue, 12, 14)]
    assert uncovered(spans, 0, 20) == [(0, 3), (8, 12), (14, 20)]
    assert uncovered(spans, 4, 10) == [(8, 10)]
    assert uncovered([], 2, 3) == [(2, 3)]
    assert uncovered(spans, 13, 14) == []
