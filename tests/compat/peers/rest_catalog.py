"""A REST catalog of Iceberg tables: Apache Iceberg's own implementation, with SQLite behind it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Self

import pyspark

from ..drivers.build import rest_catalog_classes
from .java import java_command
from .ports import free_port
from .process import Process, is_listening
from .running import Running


class RestCatalog(Running):
    """The catalog on loopback. Use as a context; with a token it refuses requests without it."""

    def __init__(self, token: str = "") -> None:
        self.root = Path(tempfile.mkdtemp(prefix="rest-catalog-"))
        self.port = free_port()
        classes, jars = rest_catalog_classes()
        hadoop = Path(pyspark.__file__).parent / "jars" / "hadoop-client-*"
        paths = [classes, f"{jars}/*", *sorted(hadoop.parent.glob(hadoop.name))]
        argv = [java_command(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp"]
        argv += [os.pathsep.join(map(str, paths)), "RestCatalog", str(self.port)]
        argv += [str(self.root / "catalog.db"), f"file://{self.root}/elsewhere"]
        argv += [token] if token else []
        self.process = Process("rest catalog", argv, self.root / "catalog.log", {})

    @property
    def url(self) -> str:
        """What users give as `--catalog`."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start it and wait until it listens."""
        self.process.start()
        self.process.wait_ready(lambda: is_listening(self.port), 60)
        return self

    def stop(self) -> None:
        """Kill it and remove what it kept."""
        self.process.kill9()
        shutil.rmtree(self.root, ignore_errors=True)
