"""One Spark session for all tests that need a JVM: starting one takes longer than most of them."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

pyspark_sql = pytest.importorskip("pyspark.sql", reason="pip install 'epochmq[spark]'")

from pyspark.sql import SparkSession  # noqa: E402
from tests.admin.shell import shell_in  # noqa: E402
from tests.compat.peers.ports import free_port  # noqa: E402
from tests.spark.jvm.driver import BRIEF, Driver  # noqa: E402

from epochmq.spark import tune  # noqa: E402

MASTER = "local[2,4]"
"""With the second number failed tasks are tried again, as on a cluster: `local[2]` hides that."""


def build(warehouse: str) -> SparkSession:
    """A session on loopback, without the web pages and progress bars, that serves Connect."""
    builder = tune(SparkSession.builder.appName("epochmq-tests"), master=MASTER)
    more = {
        "spark.driver.extraJavaOptions": BRIEF,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": warehouse,
        "spark.sql.session.timeZone": "UTC",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(free_port()),
    }
    for key, value in more.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session, with `tune`'s settings."""
    session = build(str(tmp_path_factory.mktemp("warehouse")))
    yield session
    session.stop()


@pytest.fixture
def remote(spark: SparkSession) -> str:
    """Where the session serves Spark Connect: a driver that needs no JVM of its own."""
    pytest.importorskip("grpc", reason="pip install 'pyspark[connect]'")
    return f"sc://127.0.0.1:{spark.conf.get('spark.connect.grpc.binding.port')}"


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Another driver, with a JVM of its own."""
    made = Driver(tmp_path_factory.mktemp("driver") / "driver.log")
    yield made
    made.close()


@dataclass(frozen=True)
class Demo:
    """A demo under way in `place`."""

    place: Path
    done: "Future[tuple[int, str, str]]"
    """Exit code, standard output and standard error."""


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """`epochmq demo` with its ending, begun by the first test that wants it or has to wait."""
    place = tmp_path_factory.mktemp("demo")
    with shell_in(place) as shell, ThreadPoolExecutor(1) as one:
        given = ("--messages", "6000", "--rate", "2000", "-o", "json")
        yield Demo(place, one.submit(shell.run, "demo", *given, timeout=280))


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """Where a streaming query keeps its place."""
    return str(tmp_path / "checkpoint")
