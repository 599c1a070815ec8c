"""What every format must do alike, and opening them."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.jobs.lake import FORMATS
from tests.tables.made import APP, SCHEMA, files_of, offsets

from epochmq.base.errors import NotFound, StoreDamaged, UsageError
from epochmq.tables.archive_table import DataFile, TableConflict, TransactionMark
from epochmq.tables.iceberg import IcebergArchive
from epochmq.tables.opening import (
    AnyTable,
    arrow_dataset,
    format_at,
    open_table,
    paths_of,
    spark_schema,
)

each_format = pytest.mark.parametrize("table", FORMATS, indirect=True)


def again(table: AnyTable) -> AnyTable:
    """The same table as another process finds it."""
    return open_table(place_of(table))


def place_of(table: AnyTable) -> str:
    """What a user names."""
    return table.warehouse if isinstance(table, IcebergArchive) else table.root


def write(table: AnyTable, mark: TransactionMark, files: list[DataFile]) -> None:
    """The transaction, without a look at the table before it."""
    table._write(mark, files)


def ids(table: AnyTable) -> Counter[str]:
    return Counter(arrow_dataset(table).to_table()["msgId"].to_pylist())


@each_format
def test_a_batch_is_in_the_table_once(table: AnyTable) -> None:
    assert table.last_batch(APP) is None
    assert table.mark is None
    table.claim(APP, offsets(5))
    assert again(table).last_batch(APP) == (0, offsets(5))
    assert table.commit(APP, 1, offsets(9), files_of(table, 1, 5, 9))
    assert not table.commit(APP, 1, offsets(9), files_of(table, 1, 5, 9))
    assert again(table).last_batch(APP) == (1, offsets(9))
    assert ids(again(table)) == Counter({f"T-0-{at}": 1 for at in range(5, 9)})
    assert table.mark == again(table).mark == TransactionMark(APP, 1, offsets(9), table.run)
    assert len(table.files()) == 1


LEFT = {
    "delta": "_delta_log/_commit_0.json.tmp",
    "iceberg": "catalog.db",
    "parquet": "_manifest/.draft",
}


@pytest.mark.parametrize("format", FORMATS)
def test_a_making_that_was_cut_off_is_done_again(tmp_path: Path, format: str) -> None:
    """What SIGKILL leaves when it falls between the folder and the first transaction."""
    left = tmp_path / LEFT[format]
    left.parent.mkdir(exist_ok=True)
    left.touch()
    (tmp_path / "_checkpoint").mkdir()
    with pytest.raises((NotFound, UsageError)):
        open_table(str(tmp_path))
    table = open_table(str(tmp_path), format, schema=SCHEMA, app=APP)
    table.claim(APP, {})
    table.commit(APP, 1, offsets(3), files_of(table, 1, 0, 3))
    assert ids(again(table)) == Counter({f"T-0-{at}": 1 for at in range(3)})


@each_format
def test_whoever_claims_last_writes(table: AnyTable) -> None:
    table.claim(APP, {})
    other = again(table)
    other.claim(APP, {})
    with pytest.raises(TableConflict, match="another archive writes to"):
        table.commit(APP, 1, offsets(9), files_of(table, 1, 0, 9))
    assert other.commit(APP, 1, offsets(3), files_of(other, 1, 0, 3))
    assert sum(ids(again(table)).values()) == 3


@each_format
def test_a_replaced_run_never_puts_the_mark_back(table: AnyTable) -> None:
    """Not by adding columns, by compaction, nor by a claim that was prepared before."""
    table.claim(APP, {})
    for batch in (1, 2):
        table.commit(APP, batch, offsets(batch), files_of(table, batch, batch - 1, batch))
    late = again(table)
    other = again(table)
    other.claim(APP, offsets(2))
    other.commit(APP, 3, offsets(9), files_of(other, 3, 2, 9))
    table.files()  # looks at the newest version, as cleaning does before compaction
    late.files()
    attempts: list[Callable[[], object]] = [
        lambda: late.evolve(pa.schema([*SCHEMA, pa.field("more", pa.string())])),
        lambda: late.claim(APP, offsets(2)),
        lambda: table.compact(),
        lambda: table.commit(APP, 3, offsets(3), []),
    ]
    for attempt in attempts:
        with suppress(TableConflict):
            attempt()
        assert again(table).last_batch(APP) == (3, offsets(9))
    assert ids(again(table)) == Counter({f"T-0-{at}": 1 for at in range(9)})


@each_format
def test_of_two_transactions_at_once_one_fails(table: AnyTable) -> None:
    """Both have looked, and nobody had committed: the format itself must tell them apart."""
    table.claim(APP, {})
    other = again(table)
    files = files_of(table, 1, 0, 3)
    assert other.commit(APP, 1, offsets(3), files_of(other, 1, 0, 3))
    mark = TransactionMark(APP, 1, offsets(3), "late")
    with pytest.raises(TableConflict):
        write(table, mark, files)
    assert ids(again(table)) == Counter({f"T-0-{at}": 1 for at in range(3)})


@each_format
def test_columns_are_added_and_never_changed(table: AnyTable) -> None:
    table.claim(APP, {})
    table.commit(APP, 1, offsets(2), files_of(table, 1, 0, 2))
    wider = pa.schema([*SCHEMA, pa.field("carrier", pa.string())])
    assert table.evolve(wider) == ["carrier"]
    assert table.evolve(wider) == table.evolve(SCHEMA) == []
    assert again(table).last_batch(APP) == (1, offsets(2))
    assert arrow_dataset(again(table)).to_table()["carrier"].to_pylist() == [None, None]
    with pytest.raises(UsageError, match="column 'carrier'"):
        table.evolve(pa.schema([pa.field("carrier", pa.int64())]))


@each_format
def test_compaction_keeps_rows_and_mark(table: AnyTable) -> None:
    table.claim(APP, {})
    for batch in range(1, 5):
        table.commit(
            APP, batch, offsets(batch * 3), files_of(table, batch, batch * 3 - 3, batch * 3)
        )
    assert table.compact() == {"removed": 4, "added": 1}
    assert table.compact() == {"removed": 0, "added": 0}
    found = again(table)
    assert found.last_batch(APP) == (4, offsets(12))
    assert len(found.storage.find()) >= 5, "readers under way may still want the small ones"
    assert found.vacuum(0) == 4
    found = again(table)
    assert found.last_batch(APP) == (4, offsets(12))
    assert ids(found) == Counter({f"T-0-{at}": 1 for at in range(12)})
    assert table.commit(APP, 5, offsets(13), files_of(table, 5, 12, 13))
    assert sum(ids(again(table)).values()) == 13


@each_format
def test_no_flipped_bit_of_a_compacted_file_is_read_in_silence(table: AnyTable) -> None:
    """Pages have checksums, as those of the files before; and damage is not made sound."""
    table.claim(APP, {})
    for batch in (1, 2):
        table.commit(
            APP, batch, offsets(batch * 40), files_of(table, batch, batch * 40 - 40, batch * 40)
        )
    path = Path(table.storage.url(paths_of(table)[0]))
    sound = path.read_bytes()
    (bit,) = silent_bits(path, 1)
    flip(path, sound, bit)
    with pytest.raises((StoreDamaged, OSError)):
        table.compact()
    path.write_bytes(sound)
    assert table.compact() == {"removed": 2, "added": 1}
    (name,) = paths_of(again(table))
    assert silent_bits(Path(table.storage.url(name)), 0) == []


def silent_bits(path: Path, most: int) -> list[int]:
    """Bits of a file's pages, of 300, that change what is read and are not noticed: without
    checksums, up to `most`; with them, when that is 0."""
    sound, wanted, found = path.read_bytes(), pq.read_table(path), []
    group = pq.read_metadata(path).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    end = max(each.data_page_offset + each.total_compressed_size for each in columns)
    end = min(end, len(sound) - pq.read_metadata(path).serialized_size - 8)
    for bit in Random(5).sample(range(32, 8 * end), 300):
        flip(path, sound, bit)
        with suppress(OSError, ValueError):
            rows = pq.ParquetFile(path, page_checksum_verification=most == 0).read()
            if not rows.equals(wanted):
                found.append(bit)
        if most and len(found) == most:
            break
    path.write_bytes(sound)
    return found


def flip(path: Path, sound: bytes, bit: int) -> None:
    changed = bytearray(sound)
    changed[bit // 8] ^= 1 << bit % 8
    path.write_bytes(changed)


@each_format
def test_vacuum_removes_what_no_reader_can_want(table: AnyTable) -> None:
    table.claim(APP, {})
    table.commit(APP, 1, offsets(3), files_of(table, 1, 0, 3))
    files_of(table, 2, 3, 6)
    assert table.vacuum(24) == 0
    assert table.vacuum(0) == 1
    assert set(table.storage.find()) == set(paths_of(table))
    assert again(table).last_batch(APP) == (1, offsets(3))
    assert sum(ids(again(table)).values()) == 3


@each_format
def test_topics_that_need_escaping(table: AnyTable) -> None:
    table.claim(APP, {})
    names = ("%DLQ%g", "123", "a|b")
    for batch, name in enumerate([*names, *names], 1):
        at = 2 * (batch > len(names))
        table.commit(APP, batch, {}, files_of(table, batch, at, at + 2, name))
    check_topics(again(table), names)
    assert table.compact() == {"removed": 6, "added": 3}
    check_topics(again(table), names)


def check_topics(table: AnyTable, names: tuple[str, ...]) -> None:
    """Arrow finds all of them, and every file is where the table says."""
    rows = arrow_dataset(table).to_table(columns=["topic", "storeDate"])
    assert Counter(rows["topic"].to_pylist()) == dict.fromkeys(names, 4)
    assert {str(each) for each in rows["storeDate"].to_pylist()} == {"2023-11-14"}
    assert set(paths_of(table)) <= set(table.storage.find())


@each_format
def test_owners_and_formats(table: AnyTable) -> None:
    with pytest.raises(UsageError, match="'other'"):
        table.last_batch("other")
    table.claim(APP, {})
    with pytest.raises(UsageError, match=f"belongs to the archive '{APP}', not to 'other'"):
        again(table).last_batch("other")
    place = place_of(table)
    assert format_at(place) == table.format
    wrong = "delta" if table.format == "parquet" else "parquet"
    with pytest.raises(UsageError, match=f"is {table.format}, not {wrong}"):
        open_table(place, wrong)


def test_places_without_a_table(tmp_path: Path) -> None:
    assert format_at(str(tmp_path / "none")) is None
    with pytest.raises(NotFound, match="there is no table at"):
        open_table(str(tmp_path / "none"))
    with pytest.raises(UsageError, match="'orc' is not a format: use delta, iceberg, parquet"):
        open_table(str(tmp_path), "orc")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="holds other files and no table"):
        format_at(str(tmp_path))


def test_sparks_types() -> None:
    found = spark_schema(SCHEMA)
    assert found.names == SCHEMA.names
    assert all(each.nullable for each in found.fields)
    assert found["queueOffset"].dataType.simpleString() == "bigint"
