"""Whether a table holds a topic: a cheap check while a campaign runs, all of it at the end."""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from pathlib import Path

from chaos.spark_feed import Place
from epochmq.tables.archive_table import batch_of
from epochmq.tables.opening import AnyTable, arrow_dataset, open_table, paths_of

Row = tuple[int, int, str]
"""Queue id, queue offset and message id."""
TRIES = 5


def check(table: Path, owner: str) -> int | None:
    """That the table has as many rows as its mark says; how many.

    Offsets begin at 0 and each is one message, so the sum of the mark's offsets is the number of
    rows. A driver may commit meanwhile: None if it did so each time, or if there is no table yet.
    """
    try:
        for _ in range(TRIES):
            before = marked(table, owner)
            rows: int = arrow_dataset(open_table(str(table))).count_rows()
            if marked(table, owner) == before:
                assert rows == before, f"{rows} rows are in the table, its mark says {before}"
                return rows
    except AssertionError:
        raise
    except Exception:  # each library has its own for a table that is only begun, or locked
        pass
    return None


def marked(table: Path, owner: str) -> int:
    """Messages that the table says it holds."""
    found = open_table(str(table)).last_batch(owner)
    return sum(sum(queues.values()) for queues in found[1].values()) if found else 0


def rows_of(table: AnyTable) -> list[Row]:
    """Where each row is from, and its id."""
    columns = ("queueId", "queueOffset", "msgId")
    found = arrow_dataset(table).to_table(columns=list(columns))
    return list(zip(*(found[name].to_pylist() for name in columns), strict=True))


def orphans(table: AnyTable) -> int:
    """Files of batches that the table does not name."""
    named = set(paths_of(table))
    written = [path for path in table.storage.find() if batch_of(path) is not None]
    return sum(path not in named for path in written)


def judge(rows: Iterable[Row], topic: Mapping[Place, str], acked: Set[str]) -> None:
    """`AssertionError` unless rows and messages are the same, by place and id, each once."""
    found = Counter(rows)
    many([row for row, count in found.items() if count > 1], "messages are in the table repeatedly")
    ids = Counter(row[2] for row in found)
    many([each for each, count in ids.items() if count > 1], "ids are in the table repeatedly")
    wanted = {(*place, each) for place, each in topic.items()}
    many(wanted - found.keys(), f"of {len(wanted):,} messages are not in the table")
    many(found.keys() - wanted, "rows are not messages of the topic")
    many(acked - ids.keys(), f"of {len(acked):,} acknowledged messages are not in the table")


def many(wrong: Iterable[object], what: str) -> None:
    """`AssertionError` that counts and names a few."""
    listed = sorted(map(str, wrong))
    assert not listed, f"{len(listed):,} {what}: {', '.join(listed[:5])}"
