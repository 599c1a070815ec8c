"""Compaction: rewrites many small Parquet files as few large ones."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from epochmq.base.errors import StoreDamaged
from epochmq.base.needs import need
from epochmq.tables.archive_table import TARGET_FILE_BYTES, DataFile, data_file_name
from epochmq.tables.column_bounds import ColumnBounds, footer_columns
from epochmq.tables.storage import HashedFile, Storage

Bin = list[DataFile]
ROW_GROUP_BYTES = 32 * 1024 * 1024
HASHED_AT_ONCE = 4


def bins(files: Iterable[DataFile], target: int = TARGET_FILE_BYTES) -> list[Bin]:
    """Group small files of a partition so that each group has about `target` bytes at most."""
    by_partition: dict[tuple[str, str], list[Bin]] = {}
    for file in sorted(files, key=lambda each: each.path):
        if file.bytes >= target // 2:
            continue
        found = by_partition.setdefault((file.topic, file.store_date), [[]])
        if sum(each.bytes for each in found[-1]) + file.bytes > target:
            found.append([])
        found[-1].append(file)
    return [each for found in by_partition.values() for each in found if len(each) > 1]


def rewrite(storage: Storage, old: Bin, schema: Any, batch: int) -> DataFile:
    """Write the rows of `old` to one new file, in their order; missing columns become null."""
    pq = need("pyarrow.parquet", "spark")
    first = old[0]
    path = f"{first.path.rpartition('/')[0]}/{data_file_name(batch, 0)}"
    check_digests(storage, old)
    bounds = ColumnBounds()
    with storage.create(path) as file:
        out = HashedFile(file)
        with pq.ParquetWriter(
            out,
            schema,
            compression="zstd",
            write_statistics=footer_columns(schema),
            write_page_checksum=True,
        ) as writer:
            for table in _tables(storage, old, schema):
                writer.write_table(table)
                bounds.add(table)
        size, digest = out.tell(), out.sha256()
    return DataFile(
        path,
        sum(each.rows for each in old),
        size,
        first.topic,
        first.store_date,
        bounds.found,
        digest,
    )


def check_digests(storage: Storage, files: Iterable[DataFile]) -> None:
    """Raise `StoreDamaged` with the files whose bytes are not the ones that were written.

    Files without a digest are skipped.
    """
    known = [each for each in files if each.sha256]
    with ThreadPoolExecutor(HASHED_AT_ONCE) as pool:
        found = pool.map(storage.sha256, [each.path for each in known])
        wrong = [each.path for each, now in zip(known, found, strict=True) if each.sha256 != now]
    if wrong:
        raise StoreDamaged(
            f"{storage.root}: {len(wrong)} of {len(known)} files are damaged, their bytes are not"
            f" those that the archive wrote: {', '.join(sorted(wrong)[:5])}. Restore them from a"
            " copy of the table, or archive these messages into another table while brokers have"
            " them; nothing was read from them"
        )


def _tables(storage: Storage, files: Bin, schema: Any) -> Iterator[Any]:
    """Yield the row groups of the files, joined to useful sizes."""
    pa, pq = need("pyarrow", "spark"), need("pyarrow.parquet", "spark")
    waiting: list[Any] = []
    for each in files:
        with storage.fs.open(storage.url(each.path), "rb") as file:
            source = pq.ParquetFile(file, page_checksum_verification=True)
            for group in range(source.num_row_groups):
                waiting.append(conform(source.read_row_group(group), schema))
                if sum(table.nbytes for table in waiting) >= ROW_GROUP_BYTES:
                    yield pa.concat_tables(waiting)
                    waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def conform(table: Any, schema: Any) -> Any:
    """Return the same rows with exactly the columns of `schema`."""
    pa = need("pyarrow", "spark")
    columns = [
        table.column(each.name).cast(each.type)
        if each.name in table.column_names
        else pa.nulls(table.num_rows, each.type)
        for each in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
