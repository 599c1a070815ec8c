"""Apache Hadoop's YARN, a resource manager and one node in one process, of PySpark's version."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Self

import pyspark

from ..drivers.build import yarn_classes
from .java import java_command
from .process import Process
from .running import Running

_JARS = Path(pyspark.__file__).parent / "jars"
_CLIENT = "hadoop-client-api-"


class Yarn(Running):
    """YARN on loopback. Use as a context; `conf` is the HADOOP_CONF_DIR of its clients."""

    def __init__(self) -> None:
        (client,) = _JARS.glob(f"{_CLIENT}*.jar")
        classes, jars = yarn_classes(client.stem.removeprefix(_CLIENT), _JARS)
        self.root = Path(tempfile.mkdtemp(prefix="yarn-"))
        self.conf = self.root / "conf"
        self.conf.mkdir()
        paths = (classes, f"{jars}/*", f"{_JARS}/*")
        argv = [java_command(), "-Xmx512m", "-XX:TieredStopAtLevel=1"]
        argv += [f"-Dtest.build.data={self.root}/data", "-Djava.net.preferIPv4Stack=true"]
        argv += ["-cp", os.pathsep.join(map(str, paths)), "MiniYarn"]
        self._config = self.conf / "yarn-site.xml"
        self.process = Process("yarn", [*argv, self._config], self.root / "yarn.log", {})

    def start(self) -> Self:
        """Start it and wait until its node has registered."""
        self.process.start()
        self.process.wait_ready(self._config.exists, 120)
        return self

    def output(self) -> str:
        """What the containers of all applications printed so far."""
        files = sorted((self.root / "data").rglob("stdout"))
        return "\n".join(file.read_text(errors="replace") for file in files)

    def stop(self) -> None:
        """Stop it with its containers, and remove what it kept."""
        self.process.stop(20)
        shutil.rmtree(self.root, ignore_errors=True)
