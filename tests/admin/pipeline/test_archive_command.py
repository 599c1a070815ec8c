"""`epochmq pipeline archive`: every bad argument is one clear line and the right exit code."""

import base64
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from epochmq.admin.cli import cli
from epochmq.admin.pipeline.archive_command import typing_of
from epochmq.base.errors import UsageError
from epochmq.spark.typed import NOT_TYPED, Typing

PLACE = ["pipeline", "archive", "T", "--table"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pipeline", "archive", "--table", "t"], "Missing argument 'TOPIC"),
        (["pipeline", "archive", "T"], "Missing option '--table'"),
        ([*PLACE, "t", "--format", "orc"], "is not one of 'delta', 'iceberg', 'parquet'"),
        ([*PLACE, "t", "--max-rows", "0"], "0 is not in the range"),
        ([*PLACE, "t", "--conf", "x"], "'x' is not a setting of Spark"),
        ([*PLACE, "t", "--columns", "bodi"], "did you mean 'body'"),
        ([*PLACE, "t", "--typed", "json"], "--typed json needs --typed-schema"),
        ([*PLACE, "t", "--typed-prefix", "x"], "need --typed"),
        ([*PLACE, "t", "--typed-registry", "http://h"], "--typed-registry need --typed"),
        ([*PLACE, "t", "--typed", "avro", "--typed-subject", "s"], "need --typed-registry"),
        ([*PLACE, "t", "--typed", "avro", "--typed-registry", "h"], "not an address of a schema"),
        ([*PLACE, "t", "--typed", "json", "--typed-schema", "n"], "'n' is not a column"),
        ([*PLACE, "t", "--typed", "avro", "--typed-schema", "@none"], "none cannot be read"),
        (["pipeline", "archive", "T", "T", "--table", "t"], "a topic is named twice"),
        (["pipeline", "archive", "a b", "--table", "t"], "forbidden character"),
        ([*PLACE, "t", "--catalog", "x", "--format", "delta"], "--catalog is for Iceberg"),
    ],
)
def test_bad_arguments(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(cli, arguments)
    assert (ended.exit_code, said in ended.output) == (2, True), ended.output
    assert not list(tmp_path.iterdir()), "nothing was made"


def test_nobody_answers(tmp_path: Path) -> None:
    ended = CliRunner().invoke(
        cli, [*PLACE, str(tmp_path / "t"), "-n", "127.0.0.1:1", "--failover-timeout", "0.2"]
    )
    assert ended.exit_code == 3, ended.output
    assert len(ended.output.strip().splitlines()) <= 2
    assert not (tmp_path / "t").exists()


def test_schemas_of_bodies(tmp_path: Path) -> None:
    assert typing_of(None, None, "", "") == NOT_TYPED
    assert typing_of("json", "n int", "", "j_") == Typing("json", "n int", "", "j_")
    (tmp_path / "s").write_bytes(b"\xff\x00")
    file = f"@{tmp_path}/s"
    packed = base64.b64encode(b"\xff\x00").decode()
    assert typing_of("protobuf", file, "a.B", "") == Typing("protobuf", packed, "a.B")
    with pytest.raises(UsageError, match="is not text"):
        typing_of("avro", file, "", "")
    with pytest.raises(UsageError, match="needs --typed-message"):
        typing_of("protobuf", file, "", "")


def test_help_imports_neither_spark_nor_arrow() -> None:
    code = (
        "import sys; from epochmq.admin.cli import cli\n"
        "try: cli(['pipeline', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'pyspark', 'pyarrow', 'numpy', 'deltalake', 'pyiceberg', 'fsspec', 'asyncio'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "HEAVY []" in done.stdout
