"""The default name server of commands: option `-n` and what replaces it."""

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
"""A running local cluster has this file: {"namesrv": "host:port", "broker": ...}."""


def default_namesrv() -> str:
    """Return the environment variable's value, else this directory's cluster, else the usual port.

    Raises `NotReachable` when this directory has a cluster that does not run: another cluster may
    use the usual port, and the command could delete something in it.
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
    use_files_of(directory)
    return address


def use_files_of(directory: Path) -> None:
    """Let the running command use the authority and the credentials of the cluster in `directory`.

    A command that was given TLS settings or credentials uses those alone. For an open cluster this
    does nothing.
    """
    context = click.get_current_context(silent=True)
    if context is None:
        return
    from epochmq.admin.local.secure_files import as_admin, is_secure

    if not is_secure(directory):
        return
    from epochmq.auth.credentials import outgoing_credentials
    from epochmq.client.aio.client_credentials import credentials_of
    from epochmq.runtime.tls import outgoing_tls

    given = outgoing_tls.get() or outgoing_credentials.get() or credentials_of(os.environ)
    if given is None:
        context.find_root().with_resource(as_admin(directory))


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
