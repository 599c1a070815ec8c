"""What `verify` finds: every flipped bit, rows that are missing, repeated or not the topic's."""

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.spark.jobs.damage import FORMATS, archived, files, flips
from tests.spark.jobs.lake import BROKER, FakeCluster, one_record
from tests.tiers import FIRST_SEED, choose

from epochmq.base.errors import EpochError, NotFound
from epochmq.model.topic import MessageQueue
from epochmq.spark.jobs.archive_plan import Range
from epochmq.spark.jobs.table_check import FileCheck, check_file
from epochmq.spark.jobs.verify_table import VerifyOptions, coverage, verify
from epochmq.tables.archive_rows import Span
from epochmq.tables.opening import AnyTable, open_table

FLIPS = choose(sample=60, soak=20_000)
COLUMNS = ("topic", "queueId", "queueOffset", "brokerName", "body", "properties", "storeTimestamp")


@pytest.fixture(params=FORMATS)
def format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("compact", [False, True], ids=["batches", "compacted"])
@pytest.mark.timeout(7200)
def test_every_flipped_bit_is_found_and_stops_readers(
    tmp_path: Path, format: str, compact: bool
) -> None:
    place = tmp_path / "table"
    archived(place, format, compact=compact)
    assert verify(VerifyOptions(str(place))).status == "sound"
    for flip in flips(place, FLIPS, FIRST_SEED + compact):
        report = verify(VerifyOptions(str(place)))
        assert report.status == "damaged", flip
        assert report.details["problems"], flip
        with pytest.raises(EpochError):  # as a replay does before it sends a message
            open_table(str(place)).check_files()


def test_a_changed_location_in_icebergs_metadata_is_found(tmp_path: Path) -> None:
    """The digests are not searched at the place that the damaged file names."""
    archived(tmp_path / "table", "iceberg")
    path = max((tmp_path / "table").rglob("*.metadata.json"))
    sound = path.read_bytes()
    at = sound.index(b'"location":"') + len(b'"location":"') + len(str(tmp_path)) - 2
    for place in (at, at + 10):
        changed = bytearray(sound)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(EpochError, match=r"is damaged: .*metadata"):
            open_table(str(tmp_path / "table")).check_files()
        assert verify(VerifyOptions(str(tmp_path / "table"))).status == "damaged"


def test_a_sound_table(tmp_path: Path, format: str) -> None:
    archived(tmp_path, format)
    report = verify(VerifyOptions(str(tmp_path)))
    assert (report.status, report.rows) == ("sound", 32)
    assert report.details["problems"] == []
    assert report.details["withoutDigest"] == 0
    planned = verify(VerifyOptions(str(tmp_path)), dry_run=True)
    assert (planned.status, planned.rows) == ("dry-run", 32)


def test_a_missing_file(tmp_path: Path, format: str) -> None:
    archived(tmp_path, format)
    gone = next(path for path in files(tmp_path) if path.suffix == ".parquet")
    gone.unlink()
    report = verify(VerifyOptions(str(tmp_path)))
    (name,) = report.details["damagedFiles"]  # type: ignore[misc]
    assert Path(str(name)).name == gone.name
    problems = report.details["problems"]
    assert isinstance(problems, list)
    assert f"{name}: it is missing" in problems
    assert any(text.startswith("missing: ") for text in problems)


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no table at"):
        verify(VerifyOptions(str(tmp_path / "none")))


def test_damage_without_digests_is_found_by_pages_and_bodies(tmp_path: Path) -> None:
    """A file of an older version: no digest, and a body that does not fit its checksum."""
    archived(tmp_path, "delta")
    table = open_table(str(tmp_path))
    file = replace(min(table.data_files(), key=lambda each: each.path), sha256="")
    path = tmp_path / file.path
    rows = pq.read_table(path, partitioning=None)
    bodies = [b"changed", *rows.column("body").to_pylist()[1:]]
    at = rows.schema.get_field_index("body")
    pq.write_table(rows.set_column(at, rows.schema.field(at), [bodies]), path)
    file = replace(file, bytes=path.stat().st_size)
    found = check_file(table.storage, file, COLUMNS, None)
    assert not found.damage
    assert found.wrong_bodies == [f"{BROKER}:0:0"]
    sound = path.read_bytes()
    path.write_bytes(sound[:-1])
    assert "bytes, and the table says" in check_file(table.storage, file, COLUMNS, None).damage
    path.write_bytes(sound[: len(sound) // 2] + bytes(len(sound) - len(sound) // 2))
    assert "cannot be read" in check_file(table.storage, file, COLUMNS, None).damage
    path.write_bytes(sound)
    more = replace(file, rows=file.rows + 1)
    assert "rows, and the table says" in check_file(table.storage, more, COLUMNS, None).damage


def check_all(table: AnyTable, cluster: FakeCluster) -> list[FileCheck]:
    def read(one: Range) -> list[bytes]:
        low = cluster.topics["T"].low[one.queue.queue_id]
        return [b"".join(cluster.fetch(replace(one, start=max(one.start, low))))]

    return [check_file(table.storage, each, COLUMNS, read) for each in table.data_files()]


def test_rows_are_compared_with_the_topic(tmp_path: Path, format: str) -> None:
    cluster = archived(tmp_path, format)
    table = open_table(str(tmp_path))
    found = check_all(table, cluster)
    assert (sum(each.compared for each in found), sum(each.expired for each in found)) == (32, 0)
    assert not any(each.different for each in found)
    cluster.topics["T"].queues[1][4] = one_record("T", 1, 4, b"[]")
    cluster.topics["T"].low[0] = 3
    found = check_all(table, cluster)
    assert (sum(each.compared for each in found), sum(each.expired for each in found)) == (29, 3)
    assert [text for each in found for text in each.different] == [f"{BROKER}:1:4 (body)"]


def span(start: int, end: int, number: int = 0) -> Span:
    return Span(MessageQueue("T", BROKER, number), start, end)


def test_each_queue_offset_is_there_once() -> None:
    ends = {span(0, 0).queue: 20}
    begins = {span(0, 0).queue: 5}
    whole = [span(5, 9), span(12, 20)]
    found = coverage(whole, [span(9, 12)], ends, begins)
    assert (found.missing, found.repeated, found.beyond) == ([], [], [])
    found = coverage([*whole, span(6, 8), span(19, 22)], [], ends, {})
    assert [text.rpartition(": ")[2] for text in found.missing] == ["queue offsets 9 to 11"]
    assert [text.rpartition(": ")[2] for text in found.repeated] == [
        "queue offsets 6 to 7",
        "queue offsets 19 to 19",
    ]
    assert [text.rpartition(": ")[2] for text in found.beyond] == ["queue offsets 20 to 21"]
    found = coverage([span(5, 9)], [], ends, {})
    assert [text.rpartition(": ")[2] for text in found.missing] == ["queue offsets 9 to 19"]
    found = coverage([span(7, 20)], [], ends, begins)
    assert [text.rpartition(": ")[2] for text in found.missing] == ["queue offsets 5 to 6"]
    found = coverage([], [], ends, begins)
    assert [text.rpartition(": ")[2] for text in found.missing] == ["queue offsets 5 to 19"]
