"""A REST catalog of Iceberg tables: Apache Iceberg's own implementation, with SQLite behind it."""

from __future__ import annotations

import os
from pathlib import Path

import pyspark

from ..drivers.build import rest_catalog_classes
from .java import java_command
from .process import Process
from .running import OneServer


class RestCatalog(OneServer):
    """The catalog on loopback. Use as a context; with a token it refuses requests without it."""

    def __init__(self, token: str = "") -> None:
        super().__init__("rest-catalog")
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
