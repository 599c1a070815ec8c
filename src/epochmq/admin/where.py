"""Which name server a command talks to when it was not told: `-n` and its defaults."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

ENVIRONMENT = "NAMESRV_ADDR"
DEFAULT = "127.0.0.1:9876"
DEV_DIRECTORY = ".epochmq"
NAMESRV_PID = "namesrv.pid"
DEV_FILE = "cluster.json"
"""Written by a local cluster when it is up: {"namesrv": "host:port", "broker": ...}."""


def default_namesrv() -> str:
    """RocketMQ's environment variable, else the cluster of this directory, else its usual port."""
    return os.environ.get(ENVIRONMENT) or _of_this_directory() or DEFAULT


def _of_this_directory() -> str | None:
    try:
        found = json.loads(Path(DEV_DIRECTORY, DEV_FILE).read_text())["namesrv"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    # Left behind by a crash, it would send people to whoever has the port today.
    from epochmq.admin.local.processes import running

    is_up = running(Path(DEV_DIRECTORY, NAMESRV_PID)) is not None
    return found if is_up and isinstance(found, str) else None


namesrv_option: Callable[[F], F] = click.option(
    "-n",
    "--namesrv",
    default=default_namesrv,
    metavar="HOST:PORT[;...]",
    show_default="$NAMESRV_ADDR, the cluster in ./.epochmq, or 127.0.0.1:9876",
    help="Name servers.",
)
