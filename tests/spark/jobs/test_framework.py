"""What jobs share, without a JVM."""

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from epochmq.base.errors import DiskFull, EnvironmentFault, NotFound, UsageError
from epochmq.spark.jobs.framework import (
    JobStop,
    begun,
    explain,
    master_url,
    parse_conf,
    send_package,
    spark_session,
    translated,
)


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("local", "local[1,4]"),
        ("local[*]", "local[*,4]"),
        ("local[3]", "local[3,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local-cluster[2,1,700]", "local-cluster[2,1,700]"),
        ("spark://host:7077", "spark://host:7077"),
        ("sc://host", "sc://host"),
    ],
)
def test_masters(given: str, used: str) -> None:
    assert master_url(given) == used


@pytest.mark.parametrize("given", ["", "here", "http://x", "local[", "spark://"])
def test_bad_masters(given: str) -> None:
    with pytest.raises(UsageError, match="is not a master of Spark"):
        master_url(given)


def test_settings() -> None:
    assert parse_conf(["spark.a=b=c", "spark.d="]) == {"spark.a": "b=c", "spark.d": ""}
    for wrong in ("spark.a", "a=b", "=", ""):
        with pytest.raises(UsageError, match=r"write spark\.some\.name=value"):
            parse_conf([wrong])


class Slow:
    """A builder whose session is made while Ctrl-C comes."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def getOrCreate(self) -> "Slow":
        os.kill(os.getpid(), signal.SIGINT)
        self.steps.append("made")
        return self

    def stop(self) -> None:
        self.steps.append("stopped")


@pytest.mark.parametrize(
    ("master", "settings", "sent"),
    [
        ("spark://h:7077", {}, 1),
        ("k8s://http://h:1", {"spark.epochmq.package": "installed"}, 0),
        ("local[2,4]", {}, 0),
    ],
)
def test_executors_get_the_archive_unless_they_have_epochmq(
    master: str, settings: dict[str, str], sent: int, tmp_path: Path
) -> None:
    files: list[str] = []
    context = SimpleNamespace(master=master, addPyFile=files.append)
    send_package(SimpleNamespace(sparkContext=context, conf=settings), tmp_path)
    assert [Path(file).parent for file in files] == [tmp_path] * sent


def test_an_interrupted_start_leaves_no_jvm_behind() -> None:
    """PySpark's would stay, for it could not report to a driver that had stopped waiting."""
    builder = Slow()
    with pytest.raises(KeyboardInterrupt):
        begun(builder)
    assert builder.steps == ["made", "stopped"]


def test_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EnvironmentFault, match="Spark needs Java"), spark_session("x"):
        pass


class SparkSays(Exception):
    """Stands for py4j's and pyspark's."""

    __module__ = "pyspark.errors"


JVM = """An error occurred while calling z:collect.
: org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.X
Traceback (most recent call last):
  File "worker.py", line 1
epochmq.base.errors.DiskFull: no space is left at /t: make room
"""


def test_our_errors_come_back_as_they_were() -> None:
    found = explain(SparkSays(JVM))
    assert isinstance(found, DiskFull)
    assert str(found) == "no space is left at /t: make room"
    other = explain(SparkSays("epochmq.base.errors.Refused: no"))
    assert (type(other), str(other)) == (EnvironmentFault, "no")
    lost = explain(SparkSays("epochmq.spark.retry.DataLost: T:0 is gone"))
    assert (type(lost), str(lost)) == (EnvironmentFault, "T:0 is gone")


def test_other_errors_are_one_line() -> None:
    assert str(explain(SparkSays("first\n\tat x"))) == "Spark failed: first"
    jvm = "An error occurred while calling o.x.\n: org.spark.SparkException: no\n\tat y"
    said = "Spark failed: org.spark.SparkException: no"
    assert str(explain(SparkSays(jvm))) == said
    assert str(explain(SparkSays(""))) == "Spark failed: SparkSays"
    with pytest.raises(EnvironmentFault, match="Spark failed: boom"), translated():
        raise SparkSays("boom")
    for error in (NotFound("x"), KeyError("y")):
        with pytest.raises(type(error)), translated():
            raise error


def test_stop() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with JobStop() as stop:
        assert not stop.asked
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.asked
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before
