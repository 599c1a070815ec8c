"""Upstream's own name server, broker and ``mqadmin``, from Maven Central, as real processes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from . import wire
from .cache import UnavailableError, cache_dir, maven_jars
from .cluster import Cluster, Config
from .process import is_listening

VERSION = "5.3.3"
STORE_VERSION = "5.0.0"  # the oldest 5.x whose store files must open
_UPDATE_BROKER_CONFIG = 25

NAMESRV_MAIN = "namesrv.NamesrvStartup"
BROKER_MAIN = "broker.BrokerStartup"
CONTROLLER_MAIN = "controller.ControllerStartup"

SMALL_HEAP = ("-Xms64m", "-Xmx256m")
TEST_HEAP = ("-Xms512m", "-Xmx1g")
BENCH_HEAP = ("-Xms4g", "-Xmx4g")

TEST_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MaxDirectMemorySize=2g")
# What upstream's own start script gives the broker on a JDK above 8.
BENCH_FLAGS = (
    "-XX:+UseG1GC",
    "-XX:G1HeapRegionSize=16m",
    "-XX:G1ReservePercent=25",
    "-XX:InitiatingHeapOccupancyPercent=30",
    "-XX:SoftRefLRUPolicyMSPerMB=0",
    "-XX:-OmitStackTraceInFastThrow",
    "-XX:+AlwaysPreTouch",
    "-XX:MaxDirectMemorySize=15g",
    "-XX:-UseLargePages",
)
_MODULES = (
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)

# 5.0 reads its logging from ROCKETMQ_HOME/conf and fails without; 5.3 is pointed to a file, or else
# every program takes the broker's from the jars and writes below the user's home.
_LOGBACK = """<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %p %t %c{0} - %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""


def java_command() -> str:
    """The machine's JVM."""
    command = shutil.which("java")
    if command is None:
        raise UnavailableError("java is not installed")
    return command


def make_home(root: Path) -> Path:
    """A ROCKETMQ_HOME under ``root`` with the logging files that old versions insist on."""
    conf = root / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    for part in ("broker", "controller", "namesrv", "tools"):
        file = conf / f"logback_{part}.xml"
        if not file.exists():  # a home may be shared, and another test's program read it now
            draft = conf / f"{file.name}.{os.getpid()}"
            draft.write_text(_LOGBACK)
            draft.replace(file)
    return root


def server_argv(
    root: Path, jars: Path, heap: Sequence[str], flags: Sequence[str], main: str
) -> list[str]:
    """The command line of one of upstream's servers that keeps and logs everything in ``root``."""
    home = make_home(root)
    return [
        java_command(),
        *heap,
        *flags,
        *_MODULES,
        f"-Duser.home={root}",
        f"-Drocketmq.home.dir={home}",
        f"-Drmq.logback.configurationFile={home}/conf/logback_broker.xml",
        "-cp",
        f"{jars}/*",
        f"org.apache.rocketmq.{main}",
    ]


class JavaCluster(Cluster):
    """Upstream's name server and broker of one version. Logs: ``<root>/*.log``."""

    kind = "java"

    def __init__(
        self,
        root: Path | None = None,
        broker_config: Config | None = None,
        namesrv_config: Config | None = None,
        broker_name: str = "broker-a",
        cluster_name: str = "DefaultCluster",
        *,
        version: str = VERSION,
        heap: Sequence[str] = TEST_HEAP,
        flags: Sequence[str] = TEST_FLAGS,
    ) -> None:
        self.version = version
        self._heap = tuple(heap)
        self._flags = tuple(flags)
        java_command()  # raises when there is none
        super().__init__(root, broker_config, namesrv_config, broker_name, cluster_name)

    def _namesrv_argv(self, config: Path) -> Sequence[str | Path]:
        jars = maven_jars("server", VERSION)  # 5.0's scan of its own address cannot be turned off
        argv = server_argv(self.root, jars, SMALL_HEAP, TEST_FLAGS, NAMESRV_MAIN)
        return [*argv, "-c", config]

    def _broker_argv(self, config: Path) -> Sequence[str | Path]:
        jars = maven_jars("server", self.version)
        return [*server_argv(self.root, jars, self._heap, self._flags, BROKER_MAIN), "-c", config]

    def _namesrv_defaults(self) -> dict[str, str | int | bool]:
        # Otherwise it dials itself by the machine's outer address every three seconds.
        return {**super()._namesrv_defaults(), "scanAvailableNameSrv": False}

    def _env(self) -> dict[str, str]:
        return {"HOME": str(self.root), "ROCKETMQ_HOME": str(self.root), "NAMESRV_ADDR": ""}

    def is_ready(self) -> bool:
        """As usual; a 5.3 broker that missed its first registration is made to repeat it.

        It registers before it has found the name server alive, and tries again only after 10 s.
        A change of ``brokerPermission`` (to what it is already) registers at once.
        """
        if super().is_ready():
            return True
        if is_listening(self.broker_port):
            with suppress(OSError):
                wire.call(self.broker_addr, _UPDATE_BROKER_CONFIG, {}, b"brokerPermission=6\n")
        return False

    def stop(self) -> None:
        """Kill the broker: a clean stop takes a Java broker more than 10 s. See ``stop_broker``."""
        self.kill9_broker()
        super().stop()


def java_argv(home: Path, classpath: str, part: str, main: str) -> list[str]:
    """The command line of a small Java program that logs as ``part`` and lives in ``home``."""
    return [
        java_command(),
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xshare:auto",
        *_MODULES,
        f"-Duser.home={home}",
        f"-Drocketmq.home.dir={home}",
        f"-Drmq.logback.configurationFile={home}/conf/logback_{part}.xml",
        "-cp",
        classpath,
        main,
    ]


def run_mqadmin(
    *args: str, namesrv: str | None = None, version: str = VERSION, timeout_s: float = 60
) -> tuple[int, str]:
    """Upstream's ``mqadmin`` with ``args``: exit code and what it printed (both streams)."""
    home = make_home(cache_dir() / "mqadmin-home")
    jars = maven_jars("server", version)
    main = "org.apache.rocketmq.tools.command.MQAdminStartup"
    done = subprocess.run(
        [*java_argv(home, f"{jars}/*", "tools", main), *args],
        env={**os.environ, "HOME": str(home), "ROCKETMQ_HOME": str(home)}
        | ({"NAMESRV_ADDR": namesrv} if namesrv else {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return done.returncode, done.stdout
