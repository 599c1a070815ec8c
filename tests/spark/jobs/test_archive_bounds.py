"""Typed columns have bounds: a reader that filters by them skips files and finds the same rows."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from tests.spark.jobs.lake import FORMATS, FakeCluster, FakeRunner, NeverAsked, topic

from epochmq.spark.jobs.archive import Archive, ArchiveOptions
from epochmq.spark.jobs.job_report import no_progress
from epochmq.spark.typed import Typing
from epochmq.tables.iceberg import DEFAULT_NAME
from epochmq.tables.iceberg_catalog import IcebergCatalog
from epochmq.tables.opening import arrow_dataset, open_table

COLUMNS = "at bigint, delay double, carrier string, note string"
BATCHES = 6
ROWS = 20


def body(at: int, random: Random) -> dict[str, Any]:
    """Event times grow; each other value is missing at times."""
    values = {
        "at": at,
        "delay": random.choice([None, -1.5, 3.25, at / 2]),
        "carrier": random.choice([None, "AA", "é", "\U0001f600"]),
        "note": random.choice([None, "short", "x" * 200]),
    }
    return {name: value for name, value in values.items() if value is not None}


def archive(place: Path, format: str) -> list[dict[str, Any]]:
    """Archive one file for each batch, and return the bodies."""
    made, random, sent = topic(queues=1), Random(7), []
    options = ArchiveOptions("", ("T",), str(place), format, typing=Typing("json", COLUMNS))
    for _ in range(BATCHES):
        for _ in range(ROWS):
            sent.append(body(len(sent), random))
            made.add(1, json.dumps(sent[-1]).encode())
        cluster = FakeCluster(made)
        job = Archive(options, cluster, no_progress, lambda _step: None)
        job.open()
        job.run(FakeRunner(cluster, tasks=1), NeverAsked())  # type: ignore[arg-type]
    return sent


FILTERS: dict[str, tuple[str, Callable[[dict[str, Any]], bool]]] = {
    "late": ("at >= 110", lambda row: row["at"] >= 110),
    "one": ("at = 45", lambda row: row["at"] == 45),
    "slow": ("delay > 50", lambda row: (row["delay"] or 0) > 50),
    "carrier": ("carrier = '\U0001f600'", lambda row: row["carrier"] == "\U0001f600"),
    "nothing": ("carrier > '\U0001f600'", lambda row: False),
    "null": ("note is null", lambda row: row["note"] is None),
    "note": ("note >= 'x'", lambda row: (row["note"] or "") >= "x"),
}


def expected(sent: list[dict[str, Any]], fits: Callable[[dict[str, Any]], bool]) -> list[int]:
    names = ("at", "delay", "carrier", "note")
    return [row["at"] for row in sent if fits({name: row.get(name) for name in names})]


@pytest.mark.parametrize("compacted", [False, True])
def test_filters_of_iceberg_readers(tmp_path: Path, compacted: bool) -> None:
    sent = archive(tmp_path, "iceberg")
    if compacted:
        open_table(str(tmp_path)).compact()
    table = IcebergCatalog(str(tmp_path), None, create=False).load(DEFAULT_NAME)
    for text, fits in FILTERS.values():
        found = table.scan(row_filter=text, selected_fields=("at",)).to_arrow()
        assert sorted(found["at"].to_pylist()) == expected(sent, fits), text
    read = list(table.scan(row_filter="at >= 110").plan_files())
    assert len(read) == 1


def arrow_filters() -> dict[str, Any]:
    at, delay, carrier, note = (pc.field(name) for name in ("at", "delay", "carrier", "note"))
    return {
        "late": at >= 110,
        "one": at == 45,
        "slow": delay > 50,
        "carrier": carrier == "\U0001f600",
        "nothing": carrier > "\U0001f600",
        "null": note.is_null(),
        "note": note >= "x",
    }


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("format", FORMATS)
def test_filters_of_arrow_readers(tmp_path: Path, format: str, compacted: bool) -> None:
    sent = archive(tmp_path, format)
    if compacted:
        open_table(str(tmp_path)).compact()
    datasets = {"ours": arrow_dataset(open_table(str(tmp_path)))}
    if format == "delta":
        datasets["theirs"] = DeltaTable(str(tmp_path)).to_pyarrow_dataset()
    for whose, data in datasets.items():
        for name, chosen in arrow_filters().items():
            found = sorted(data.to_table(columns=["at"], filter=chosen)["at"].to_pylist())
            assert found == expected(sent, FILTERS[name][1]), (whose, name)


def test_bounds_in_deltas_log(tmp_path: Path) -> None:
    archive(tmp_path, "delta")
    table = DeltaTable(str(tmp_path))
    late = table.to_pyarrow_dataset().get_fragments(filter=pc.field("at") >= 110)
    assert len(list(late)) == 1
    open_table(str(tmp_path)).compact()
    (added,) = pa.table(DeltaTable(str(tmp_path)).get_add_actions(flatten=True)).to_pylist()
    assert (added["min.at"], added["max.at"]) == (0, BATCHES * ROWS - 1)
    assert added["null_count.carrier"] > 0
    assert added["null_count.at"] == 0


def test_row_groups_of_parquet_files(tmp_path: Path) -> None:
    archive(tmp_path, "parquet")
    for file in open_table(str(tmp_path)).data_files():
        footer = pq.read_metadata(tmp_path / file.path)
        columns = [footer.row_group(0).column(at) for at in range(footer.num_columns)]
        bounded = {each.path_in_schema for each in columns if each.is_stats_set}
        assert {"at", "carrier", "bornTimestamp", "queueOffset"} < bounded
        assert not bounded & {"delay", "body"}
