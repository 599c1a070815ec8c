"""Imports optional packages, with one clear error message."""

from importlib import import_module
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
