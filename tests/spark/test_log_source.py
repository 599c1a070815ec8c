"""The data source without a JVM: what Spark is told, and what is imported when."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.store.world import SMALL

pytest.importorskip("pyspark.sql", reason="pip install 'epochmq[spark]'")

from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition
from pyspark.sql.types import StringType, StructType

from epochmq.base.errors import UsageError
from epochmq.spark.log_files import StoreDirectory
from epochmq.spark.log_source import LogReader, LogSource

from .logs import WALL, written


def reader(**options: str) -> LogReader:
    source = LogSource(CaseInsensitiveDict(options))
    schema = StructType()  # Spark parses the text, which takes a JVM
    for name in options["columns"].split(","):
        assert f"{name} " in source.schema()
        schema.add(name, StringType())
    made = source.reader(schema)
    assert isinstance(made, LogReader)
    return made


def test_partitions_are_read_to_rows_as_executors_do(tmp_path: Path) -> None:
    written(tmp_path, 60, replace(SMALL, commit_log_file_bytes=1 << 14)).close(WALL)
    made = reader(path=str(tmp_path), columns="commitLogOffset,file")
    found: list[dict[str, Any]] = []
    for partition in made.partitions():
        for batch in made.read(partition):
            found += batch.to_pylist()
    with StoreDirectory(tmp_path) as replica:
        assert [row["commitLogOffset"] for row in found] == [
            offset for offset, _ in replica.records(0, replica.end)
        ]
        assert {row["file"] for row in found} == {file.path for file in replica.files}


def test_an_empty_plan_reads_nothing(tmp_path: Path) -> None:
    """Spark gives one partition without a value where there are none."""
    (tmp_path / "commitlog").mkdir()
    made = reader(path=str(tmp_path), columns="body")
    assert made.partitions() == []
    assert list(made.read(InputPartition(None))) == []


def test_options_are_checked_when_the_schema_is_asked_for() -> None:
    with pytest.raises(UsageError, match="did you mean 'checkCrc'"):
        LogSource(CaseInsensitiveDict({"path": "/x", "checkCr": "true"})).schema()
    assert LogSource.name() == "rocketmq-log"


def test_the_module_that_spark_looks_into_imports_nothing_heavy() -> None:
    code = (
        "import sys, pyspark.sql.datasource as before; had = set(sys.modules)\n"
        "import pyspark_rocketmq_log as module\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - had}\n"
        "assert module.DefaultSource.name() == 'rocketmq-log'\n"
        "assert new <= {'pyspark_rocketmq_log'}, new\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
