"""One node of Apache Kafka, broker and controller in one process (KRaft), from Maven Central."""

from __future__ import annotations

import base64
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from .cache import maven_jars, run_tool
from .cluster import Config, properties
from .java import java_command
from .ports import free_port
from .process import Process, is_listening
from .running import Running

VERSION = "4.1.0"
SPARK_VERSION = "4.2.0"
"""Of Spark's jars for Kafka: those of this PySpark's version were not to be had when it was new."""
_TOOLS = "org.apache.kafka.tools"
_SMALL = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# What Kafka's own start script gives its server.
_SERVER = (
    "-Xms1g",
    "-Xmx1g",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)


def spark_jars() -> list[Path]:
    """The jars of `format("kafka")` that PySpark lacks; those it has are left out."""
    jars = maven_jars("spark-kafka", SPARK_VERSION, "spark")
    own = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
    return sorted(jar for jar in jars.glob("*.jar") if jar.name.startswith(own))


class Kafka(Running):
    """The node; it keeps and logs everything in a directory of its own. Use as a context."""

    def __init__(self, **more: str | int) -> None:
        """`more` are settings of the server, with `_` for each dot."""
        self._more = {name.replace("_", "."): value for name, value in more.items()}
        self._classpath = f"{maven_jars('kafka', VERSION, 'kafka')}/*"
        self.root = Path(tempfile.mkdtemp(prefix="kafka-"))
        self.port = free_port()
        self._config = self.root / "server.properties"
        self._config.write_text(properties(self._settings(free_port())))
        argv = [java_command(), *_SERVER, "-cp", self._classpath, "kafka.Kafka", self._config]
        self.process = Process("kafka", argv, self.root / "server.log", {})

    @property
    def address(self) -> str:
        """What `kafka.bootstrap.servers` is given."""
        return f"127.0.0.1:{self.port}"

    def _settings(self, controller: int) -> Config:
        """As in Kafka's own example of a combined node; the rest is as it comes."""
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.root / "data"),
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            **self._more,
        }

    def _tool(self, main: str, *args: str | Path) -> str:
        return run_tool([java_command(), *_SMALL, "-cp", self._classpath, main, *args])

    def start(self) -> Self:
        """Give the directory its identity, start, and wait until it listens."""
        name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._tool("kafka.tools.StorageTool", "format", "-t", name, "-c", self._config)
        self.process.start()
        self.process.wait_ready(lambda: is_listening(self.port), 120)
        return self

    def stop(self) -> None:
        """Kill it and remove what it kept."""
        self.process.kill9()
        shutil.rmtree(self.root, ignore_errors=True)

    def create_topic(self, topic: str, partitions: int) -> None:
        """By Kafka's own tool."""
        words = ["--create", "--topic", topic, "--partitions", str(partitions)]
        words += ["--replication-factor", "1", "--bootstrap-server", self.address]
        self._tool(f"{_TOOLS}.TopicCommand", *words)

    @contextmanager
    def ticking(self, topic: str, rate: int, size: int) -> Iterator[None]:
        """So many messages a second while the body runs, by Kafka's own load generator."""
        argv = [java_command(), *_SMALL, "-cp", self._classpath]
        argv += [f"{_TOOLS}.ProducerPerformance", "--topic", topic, "--record-size", str(size)]
        argv += ["--num-records", "100000000", "--throughput", str(rate)]
        argv += ["--producer-props", f"bootstrap.servers={self.address}"]
        producer = Process("ticks", argv, self.root / "ticks.log", {})
        producer.start()
        try:
            yield
        finally:
            producer.kill9()
