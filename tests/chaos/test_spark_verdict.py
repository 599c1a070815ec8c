"""What the campaign against the archive calls whole, and what it must not."""

from pathlib import Path

import pytest
from chaos.spark_verdict import Row, check, judge, orphans, rows_of
from tests.spark.jobs.lake import FORMATS, FakeCluster, archive, topic

from epochmq.spark.jobs.archive import ArchiveOptions
from epochmq.tables.archive_table import DataFile, batch_of
from epochmq.tables.opening import open_table

TOPIC = {(0, 0): "a", (0, 1): "b", (1, 0): "c"}
ROWS: list[Row] = [(0, 0, "a"), (0, 1, "b"), (1, 0, "c")]


def test_each_message_once_is_whole() -> None:
    judge(reversed(ROWS), TOPIC, {"a", "c"})


@pytest.mark.parametrize(
    ("rows", "acked", "why"),
    [
        ([*ROWS, ROWS[1]], set(), r"1 messages are in the table repeatedly: \(0, 1, 'b'\)"),
        ([*ROWS, (1, 1, "b")], set(), "1 ids are in the table repeatedly: b"),
        (ROWS[1:], set(), r"1 of 3 messages are not in the table: \(0, 0, 'a'\)"),
        ([*ROWS, (1, 1, "d")], set(), r"1 rows are not messages of the topic: \(1, 1, 'd'\)"),
        ([*ROWS[:2], (1, 0, "x")], set(), "not in the table"),
        (ROWS, {"a", "lost"}, "1 of 2 acknowledged messages are not in the table: lost"),
    ],
)
def test_anything_else_is_a_violation(rows: list[Row], acked: set[str], why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        judge(rows, TOPIC, acked)


@pytest.mark.parametrize("format", FORMATS)
def test_rows_are_counted_against_the_mark(tmp_path: Path, format: str) -> None:
    place = tmp_path / "table"
    options = ArchiveOptions("", ("T",), str(place), format, max_rows=20)
    assert check(place, options.owner) is None, "there is no table yet"
    made = topic(count=33)
    archive(options, FakeCluster(made))
    assert check(place, options.owner) == 66
    table = open_table(str(place))
    assert {row[2] for row in rows_of(table)} == made.ids
    assert {(queue, at) for queue, at, _ in rows_of(table)} == {
        (queue, at) for queue in (0, 1) for at in range(33)
    }
    assert orphans(table) == 0

    # A transaction whose mark says less than its files hold, as a batch done twice would leave.
    again = open_table(str(place))
    path = next(each for each in again.storage.find() if batch_of(each) == 1)
    copy = path.replace("/e000000000001-", "/e000000000009-")
    source = Path(again.storage.url(path))
    Path(again.storage.url(copy)).write_bytes(source.read_bytes())
    assert orphans(table) == 1
    last = again.last_batch(options.owner)
    assert last is not None
    found = DataFile(copy, 1, source.stat().st_size, "T", path.split("storeDate=")[1][:10], {})
    again.claim(options.owner, last[1])
    again.commit(options.owner, 9, last[1], [found])
    with pytest.raises(AssertionError, match=r"rows are in the table, its mark says 66"):
        check(place, options.owner)
