"""Checks that Spark will find Java, with one clear error message."""

import os
import shutil
from pathlib import Path

from epochmq.base.errors import EnvironmentFault


def check_java() -> None:
    """Raise `EnvironmentFault` when Spark would find no Java: it checks JAVA_HOME, else PATH."""
    home = os.environ.get("JAVA_HOME")
    if home and not Path(home, "bin", "java").is_file():
        raise EnvironmentFault(
            f"JAVA_HOME is {home}, which has no bin/java: unset it, or name a Java 17 or newer"
        )
    if not home and shutil.which("java") is None:
        raise EnvironmentFault(
            "Spark needs Java, and there is none on PATH: install Java 17"
            " (Debian: openjdk-17-jre-headless), or set JAVA_HOME"
        )
