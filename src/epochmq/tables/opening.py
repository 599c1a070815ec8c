"""Opens tables of any format, and reads them with Arrow or Spark."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any

from epochmq.base.errors import EnvironmentFault, EpochError, NotFound, StoreDamaged, UsageError
from epochmq.base.needs import need
from epochmq.tables.archive_table import ESCAPED, STORE_DATE, DataFile
from epochmq.tables.delta import LOG, DeltaArchive
from epochmq.tables.digests import FOLDER, TableDigests
from epochmq.tables.iceberg import DATA, DEFAULT_NAME, METADATA, IcebergArchive
from epochmq.tables.parquet import Manifest, ParquetArchive
from epochmq.tables.storage import Storage, clear_errors, is_local

AnyTable = DeltaArchive | IcebergArchive | ParquetArchive
FORMATS = ("delta", "iceberg", "parquet")


def format_at(uri: str) -> str | None:
    """Return the format of the table at `uri`; None for an empty place.

    Raises `UsageError` for a place with other files.
    """
    storage = Storage(uri)
    for kind in (DeltaArchive, IcebergArchive, ParquetArchive):
        if kind.is_at(storage):
            return kind.format
    if not storage.is_empty() and not only_ours(storage):
        raise UsageError(f"{storage.root} holds other files and no table: name an empty place")
    return None


def only_ours(storage: Storage) -> bool:
    """Return whether the files may be left from an interrupted start."""
    names = {name.rstrip("/").rpartition("/")[2] for name in storage.fs.ls(storage.root, False)}
    return names <= {"_manifest", "_delta_log", "_checkpoint"}


def open_table(
    uri: str,
    format: str | None = None,
    *,
    schema: Any = None,
    app: str = "",
    name: str = DEFAULT_NAME,
    catalog: str | None = None,
) -> AnyTable:
    """Open the table at `uri`; create it if there is none and `schema` is given.

    Without `format`, the table's own format is used. Raises `UsageError` when the table has another
    format than `format`, `NotFound` when there is no table and no schema, and `StoreDamaged` when
    the table cannot be opened because its metadata has changed.
    """
    if format is not None and format not in FORMATS:
        raise UsageError(f"'{format}' is not a format: use {', '.join(FORMATS)}")
    with opening_errors(uri, catalog), clear_errors(uri):
        found = "iceberg" if catalog else format_at(uri)
        if format and found and format != found:
            raise UsageError(f"the table {uri} is {found}, not {format}")
        kind = format or found
        if (found is None and schema is None) or kind is None:
            raise NotFound(f"there is no table at {uri}")
        if kind == "iceberg":
            return IcebergArchive(uri, schema, app, name=name, catalog=catalog)
        return (DeltaArchive if kind == "delta" else ParquetArchive)(uri, schema, app)


@contextmanager
def opening_errors(uri: str, catalog: str | None) -> Iterator[None]:
    """Convert the errors of table libraries to one line, which names metadata that has changed."""
    try:
        yield
    except EpochError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and not is_local(uri):
            raise  # an object store that does not answer
        said = next(iter(str(error).splitlines()), "") or type(error).__name__
        if changed := changed_metadata(uri, catalog):
            raise StoreDamaged(
                f"the table {uri} is damaged: {', '.join(changed[:5])} are not what the archive"
                f" wrote ({said[:200]}). Restore them from a copy of the table by `epochmq pipeline"
                " repair`"
            ) from error
        if isinstance(error, OSError):
            raise
        raise EnvironmentFault(f"the table {uri} cannot be opened: {said[:300]}") from error


def digests_at(uri: str, catalog: str | None = None) -> list[TableDigests]:
    """Return the digests of the Delta table or of the Iceberg tables at `uri`, without opening a
    table.
    """
    storage = Storage(uri)
    if not catalog and not IcebergArchive.is_at(storage):
        return [TableDigests(storage, LOG)]
    found = storage.fs.glob(f"{storage.root}/**/{FOLDER}")
    roots = sorted(str(each).rstrip("/").removesuffix(f"/{FOLDER}") for each in found)
    scheme = "" if storage.local else f"{storage.root.partition('://')[0]}://"
    return [TableDigests(Storage(f"{scheme}{root}"), METADATA, DATA) for root in roots]


def changed_metadata(uri: str, catalog: str | None = None) -> list[str]:
    """Return the metadata and digest files of the table at `uri` that have changed since they were
    written, relative to `uri`.
    """
    storage = Storage(uri)
    if not catalog and ParquetArchive.is_at(storage):
        return Manifest(storage).check()
    found = []
    for each in digests_at(uri, catalog):
        inner = each.storage.root.removeprefix(storage.root).strip("/")
        found += [
            f"{inner}/{path}".strip("/") for path in [*each.read()[1], *each.changed_metadata()]
        ]
    return found


def paths_of(table: AnyTable) -> list[str]:
    """Return the paths of the table's files relative to its root, as in the file system."""
    return [
        each.removeprefix("file://").removeprefix(table.root).lstrip("/") for each in table.files()
    ]


def arrow_dataset(table: AnyTable) -> Any:
    """Return all rows as a `pyarrow.dataset.Dataset`; columns missing in older files are null.

    Files are skipped by topic and day, row groups by all columns with bounds.
    """
    dataset, fs = need("pyarrow.dataset", "spark"), need("pyarrow.fs", "spark")
    root = table.storage.fs._strip_protocol(table.storage.root)
    files = table.data_files()
    scan = dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
    return dataset.FileSystemDataset.from_paths(
        [f"{root}/{file.path}" for file in files],
        schema=table.schema(),
        format=dataset.ParquetFileFormat(default_fragment_scan_options=scan),
        filesystem=fs.PyFileSystem(fs.FSSpecHandler(table.storage.fs)),
        partitions=[_partition_of(file) for file in files],
    )


def _partition_of(file: DataFile) -> Any:
    """Return the filter that all rows of a file pass."""
    field = need("pyarrow.dataset", "spark").field
    day = date.fromisoformat(file.store_date)
    return (field("topic") == file.topic) & (field(STORE_DATE) == day)


def data_frame(spark: Any, table: AnyTable) -> Any:
    """Return all rows of the committed files as a Spark DataFrame; directories are not listed."""
    schema = spark_schema(table.schema())
    files = [_for_spark(each) for each in table.files()]
    if not files:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(schema).option("basePath", _for_spark(table.storage.root))
    reader = reader.option("parquet.page.verify-checksum.enabled", "true")
    # Spark puts partition columns last; other readers keep the order of the schema.
    rows = reader.parquet(*files).select(*schema.names)
    escapes = tuple(ESCAPED.values())
    return _with_topics(rows) if any(e in each for each in files for e in escapes) else rows


def _with_topics(rows: Any) -> Any:
    """Convert directory names back to topic names."""
    functions = need("pyspark.sql.functions", "spark")
    topic = functions.col("topic")
    for char, escape in ESCAPED.items():
        topic = functions.replace(topic, functions.lit(escape), functions.lit(char))
    return rows.withColumn("topic", topic)


def spark_schema(schema: Any) -> Any:
    """Return the Spark schema of a table's columns, all nullable."""
    found = need("pyspark.sql.pandas.types", "spark").from_arrow_schema(schema)
    for each in found.fields:
        each.nullable = True
    return found


def _for_spark(uri: str) -> str:
    """Escape a path for Spark, which reads paths as URLs and unescapes `%`."""
    plain = uri.replace("%", "%25")
    return f"s3a://{plain[5:]}" if plain.startswith("s3://") else plain
