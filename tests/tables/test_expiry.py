"""Which files expire: never one whose loss would be a gap, and as many as possible."""

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from epochmq.model.topic import MessageQueue
from epochmq.tables.archive_rows import Span
from epochmq.tables.archive_table import DataFile
from epochmq.tables.expiry import CLOCK_DAYS, expired

FIRST = date(2026, 1, 1)
QUEUES = [MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)]


@st.composite
def archives(draw: st.DrawFn) -> tuple[list[DataFile], dict[str, list[Span]]]:
    """Files of days, with rows of two queues; clocks go back by `CLOCK_DAYS` at most."""
    files: list[DataFile] = []
    rows: dict[str, list[Span]] = {}
    ends = dict.fromkeys(QUEUES, 0)
    newest = 0
    for number, (ahead, back, counts) in enumerate(
        draw(
            st.lists(
                st.tuples(
                    st.integers(0, 3),
                    st.integers(0, CLOCK_DAYS),
                    st.tuples(st.integers(0, 3), st.integers(0, 3)),
                ),
                max_size=12,
            )
        )
    ):
        newest += ahead
        day = (FIRST + timedelta(days=max(0, newest - back))).isoformat()
        path = f"{number}.parquet"
        rows[path] = []
        for queue, count in zip(QUEUES, counts, strict=True):
            if count:
                rows[path].append(Span(queue, ends[queue], ends[queue] + count))
                ends[queue] += count
        files.append(DataFile(path, sum(counts), 1, "T", day))
    return files, rows


@given(archives(), st.integers(0, 40))
def test_what_is_left_has_no_gap_and_no_more_than_it_must(
    archive: tuple[list[DataFile], dict[str, list[Span]]], days: int
) -> None:
    files, rows = archive
    before = FIRST + timedelta(days=days)
    gone, begins = expired(files, before, lambda file: rows[file.path])
    assert all(file.store_date < before.isoformat() for file in gone)
    left = [file for file in files if file not in gone]
    for queue in QUEUES:
        ends = max((s.end for each in rows.values() for s in each if s.queue == queue), default=0)
        offsets = sorted(
            at
            for file in left
            for span in rows[file.path]
            if span.queue == queue
            for at in range(span.start, span.end)
        )
        assert offsets == list(range(begins.get(queue, 0), ends))
    # A file of an expired day stays only if one of its rows is behind one that has to stay.
    for file in left:
        if file.store_date < before.isoformat():
            assert any(
                span.end > other.start and span.queue == other.queue
                for span in rows[file.path]
                for each in left
                if each is not file
                for other in rows[each.path]
            )


def test_only_days_around_the_border_are_read() -> None:
    files = [DataFile(f"{n}", 1, 1, "T", (FIRST + timedelta(days=n)).isoformat()) for n in range(9)]
    read: list[str] = []

    def spans_of(file: DataFile) -> list[Span]:
        read.append(file.path)
        return [Span(QUEUES[0], int(file.path), int(file.path) + 1)]

    gone, begins = expired(files, FIRST + timedelta(days=4), spans_of)
    assert ([file.path for file in gone], begins) == (["0", "1", "2", "3"], {QUEUES[0]: 4})
    assert read == ["0", "1", "2", "3", "4", "5"]
    assert expired(files, FIRST, spans_of) == ([], {})


def test_other_topics_of_the_table_are_left_alone() -> None:
    old, other = (DataFile(name, 1, 1, name, "2026-01-01") for name in "TU")
    new = DataFile("V", 1, 1, "U", "2026-01-09")
    rows = {name: [Span(MessageQueue(name, "b", 0), 0, 1)] for name in "TU"}
    gone, _ = expired([old, other, new], date(2026, 1, 5), lambda file: rows[file.topic])
    assert gone == [old, other]
