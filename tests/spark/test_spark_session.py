"""Settings: later ones win, and the package costs nothing where there is no Spark."""

import subprocess
import sys
from pathlib import Path

import pytest

from epochmq.spark.spark_session import (
    SETTINGS,
    UNIX_SOCKETS,
    configured,
    settings,
    submit_arguments,
    tune,
    unpacked_paths,
)


class Builder:
    """As Spark's: remembers what it is told."""

    def __init__(self, **options: str) -> None:
        self._options = {f"spark.{name}": value for name, value in options.items()}

    def config(self, key: str, value: str) -> "Builder":
        self._options[key] = value
        return self

    @property
    def told(self) -> dict[str, str]:
        return self._options


@pytest.fixture(autouse=True)
def _nothing_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_tasks_are_tried_again() -> None:
    assert dict(settings(4))["spark.master"] == "local[4,4]"
    assert dict(settings(4, master="spark://h:7077"))["spark.master"] == "spark://h:7077"
    assert dict(settings(4))["spark.sql.shuffle.partitions"] == "4"


def test_the_builder_gets_all_and_goes_on() -> None:
    builder = Builder()
    tune(builder, master="local[2,4]").config("spark.speculation", "true")
    assert SETTINGS.keys() < builder.told.keys()
    assert builder.told["spark.speculation"] == "true"


def test_what_is_set_already_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    submitted = "--master spark://h:7077 --conf spark.speculation=true -c 'spark.log.level=INFO'"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"{submitted} pyspark-shell")
    (tmp_path / "spark-defaults.conf").write_text(
        "# ours\n\nspark.master yarn\nspark.python.factory.idleWorkerMaxPoolSize=9\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    builder = Builder()
    tune(builder)
    assert "spark.master" not in builder.told
    assert "spark.sql.shuffle.partitions" not in builder.told, "so many are right on a cluster"
    assert "spark.speculation" not in builder.told
    assert "spark.python.factory.idleWorkerMaxPoolSize" not in builder.told
    assert builder.told["spark.sql.execution.arrow.maxRecordsPerBatch"] == "2000"
    known = configured(Builder())
    assert known["spark.master"] == "spark://h:7077", "the command line wins over the file"
    assert known["spark.log.level"] == "INFO"


def test_yarn_has_directories_that_are_too_long_for_unix_sockets() -> None:
    """Every Python worker ended with "AF_UNIX path too long"."""
    assert tune(Builder(), master="spark://h:7077").told[UNIX_SOCKETS] == "true"
    assert UNIX_SOCKETS not in tune(Builder(master="yarn")).told
    assert UNIX_SOCKETS not in tune(Builder(), master="yarn").told


def test_the_master_of_the_builder_and_of_the_argument() -> None:
    assert tune(Builder(master="spark://a:1")).told["spark.master"] == "spark://a:1"
    both = tune(Builder(master="spark://a:1"), master="local[1,4]")
    assert both.told["spark.master"] == "local[1,4]", "what is said to tune wins"
    assert tune(Builder()).told["spark.master"].startswith("local[")


def test_a_client_of_connect_gets_no_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://h:15002")
    assert "spark.master" not in tune(Builder()).told
    monkeypatch.delenv("SPARK_REMOTE")
    assert "spark.master" not in tune(Builder(remote="sc://h:15002")).told


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pyspark-shell", {}),
        ("--master=yarn x", {"spark.master": "yarn"}),
        ("--conf=spark.a=b=c", {"spark.a": "b=c"}),
        ("--remote sc://h", {"spark.remote": "sc://h"}),
        ("--master", {"spark.master": ""}),
        ("'", {}),
    ],
)
def test_options_of_spark_submit(text: str, found: dict[str, str]) -> None:
    assert submit_arguments(text) == found


def test_an_unpacked_archive_is_known_by_its_paths(tmp_path: Path) -> None:
    module = tmp_path / "code" / "epochmq" / "spark" / "spark_session.py"
    assert unpacked_paths(str(module)) == []
    (tmp_path / "packages").mkdir()
    assert unpacked_paths(str(module)) == [str(tmp_path / "code"), str(tmp_path / "packages")]
    assert unpacked_paths("/lib/python3.11/site-packages/epochmq/spark/spark_session.py") == []


def test_nothing_heavy_is_imported_at_first() -> None:
    """Spark imports `pyspark_rocketmq` in every look-up of any source."""
    heavy = "{'numpy', 'pyarrow', 'pandas'}"
    code = f"import sys, epochmq.spark, pyspark_rocketmq; print({heavy} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
