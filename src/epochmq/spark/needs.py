"""Checks for optional dependencies (Python packages, Java) with one clear error message."""

import os
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

from epochmq.base.errors import EnvironmentFault


def need(module: str, extra: str) -> Any:
    """Import `module`; raises `EnvironmentFault` with the name of the extra that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name and error.name.partition(".")[0] != package:
            package = f"{package} (its {error.name})"
        raise EnvironmentFault(
            f"this needs {package}, which is not installed: pip install 'epochmq[{extra}]'"
        ) from None


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
