"""Which name server a command talks to when it was not told: `-n` and its defaults."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from epochmq.base.errors import NotReachable

F = TypeVar("F", bound=Callable[..., Any])

ENVIRONMENT = "NAMESRV_ADDR"
DEFAULT = "127.0.0.1:9876"
DEV_DIRECTORY = ".epochmq"
NAMESRV_PID = "namesrv.pid"
NAMESRV_CONFIG = "namesrv.properties"
DEV_FILE = "cluster.json"
"""Written by a local cluster when it is up: {"namesrv": "host:port", "broker": ...}."""


def default_namesrv() -> str:
    """RocketMQ's environment variable, else the cluster of this directory, else its usual port.

    `NotReachable` when this directory has a cluster that does not run: whoever listens at its
    address or at the usual port is another one, and a command may be meant to delete something.
    """
    return os.environ.get(ENVIRONMENT) or _of_this_directory() or DEFAULT


def _of_this_directory() -> str | None:
    directory = Path(DEV_DIRECTORY)
    address = _announced(directory) or _configured(directory)
    if address is None:
        return None
    from epochmq.admin.local.processes import running

    if running(directory / NAMESRV_PID) is None:
        raise NotReachable(
            f"the cluster of ./{DEV_DIRECTORY} ({address}) does not run: start it with"
            " `epochmq dev -d`, or name another with -n HOST:PORT or $NAMESRV_ADDR"
        )
    return address


def _announced(directory: Path) -> str | None:
    try:
        found = json.loads((directory / DEV_FILE).read_text())["namesrv"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def _configured(directory: Path) -> str | None:
    if not (directory / NAMESRV_CONFIG).is_file():
        return None
    from epochmq.admin.local.config_files import address_of

    return address_of(directory, "namesrv")


namesrv_option: Callable[[F], F] = click.option(
    "-n",
    "--namesrv",
    default=default_namesrv,
    metavar="HOST:PORT[;...]",
    show_default="$NAMESRV_ADDR, the cluster in ./.epochmq, or 127.0.0.1:9876",
    help="Name servers.",
)
