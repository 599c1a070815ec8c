"""Which files of an archive hold only rows of expired days. Pure.

An archive has no gaps: its rows of a queue are consecutive queue offsets. Expired rows are those
before a day, by store time. Store times go back where the clock of a broker went back, so a file of
an expired day may hold rows behind those of a day that is kept. Such a file is kept too.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING

from epochmq.model.topic import MessageQueue
from epochmq.tables.archive_table import DataFile

if TYPE_CHECKING:
    from epochmq.tables.archive_rows import Span

CLOCK_DAYS = 2
"""Clocks of brokers do not go back by more days than this; later days are not compared."""

Begins = dict[MessageQueue, int]
"""The first queue offset of each queue that lost rows, after the files are removed."""


def expired(
    files: Iterable[DataFile], before: date, spans_of: Callable[[DataFile], "Sequence[Span]"]
) -> tuple[list[DataFile], Begins]:
    """Return the files whose rows are all from days before `before`, and the new begins.

    Args:
        files: the current files of the archive.
        before: the first day (UTC) that is kept.
        spans_of: reads the queue offsets of the rows of one file.
    """
    files = list(files)
    gone = [file for file in files if file.store_date < before.isoformat()]
    topics = {file.topic for file in gone}
    near = (before + timedelta(days=CLOCK_DAYS)).isoformat()
    kept = [
        file
        for file in files
        if before.isoformat() <= file.store_date < near and file.topic in topics
    ]
    rows = {file.path: spans_of(file) for file in (*gone, *kept)}
    lows: Begins = {}
    while kept:  # a file that is kept may be before another one, which has to be kept then
        for file in kept:
            for span in rows[file.path]:
                lows[span.queue] = min(span.start, lows.get(span.queue, span.start))
        kept = [f for f in gone if any(s.end > lows.get(s.queue, s.end) for s in rows[f.path])]
        gone = [file for file in gone if file not in kept]
    begins: Begins = {}
    for file in gone:
        for span in rows[file.path]:
            begins[span.queue] = max(span.end, begins.get(span.queue, 0))
    return gone, begins
