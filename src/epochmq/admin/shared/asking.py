"""Runs a coroutine with a connected `Admin`, for commands that make requests and end."""

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from epochmq.client.aio import Admin
    from epochmq.spark.connection_options import ConnectionOptions


T = TypeVar("T")


def ask(namesrv: str, work: "Callable[[Admin], Awaitable[T]]") -> T:
    """Run `work` and return its result; connections are always closed."""
    from epochmq.client.aio import Admin  # slow to import, and `--help` needs none of it
    from epochmq.runtime.main import run

    async def connected() -> T:
        async with Admin(namesrv) as admin:
            return await work(admin)

    return run(connected())


# Connection arguments ------------------------------------------------------------------------
# `epochmq --tls COMMAND`: the TLS settings and the user of the command line's connections.


_FILE = click.Path(exists=True, dir_okay=False)
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--tls": {"is_flag": True, "help": "Speak TLS to name servers and brokers."},
    "--tls-ca": {"type": _FILE, "help": "Authorities to check their certificates against (PEM)."},
    "--tls-insecure": {"is_flag": True, "help": "Do not check their certificates."},
    "--tls-cert": {"type": _FILE, "help": "Certificate to show, where one is asked for (PEM)."},
    "--tls-key": {"type": _FILE, "help": "Its private key (PEM)."},
}


_CREDENTIALS: Mapping[str, Mapping[str, Any]] = {
    "--credentials": {
        "type": _FILE,
        "help": "Properties file with accessKey and secretKey, readable only by its owner."
        " [else: EPOCHMQ_ACCESS_KEY and EPOCHMQ_SECRET_KEY]",
    }
}


def add_options(command: click.Command) -> None:
    """Add the options to `command`; each has an environment variable, such as EPOCHMQ_TLS."""
    for name, more in {**OPTIONS, **_CREDENTIALS}.items():
        variable = "EPOCHMQ_" + name.removeprefix("--").replace("-", "_").upper()
        click.option(name, envvar=variable, show_envvar=True, **more)(command)


def use_connection_options(
    tls: bool,
    tls_ca: str | None,
    tls_insecure: bool,
    tls_cert: str | None,
    tls_key: str | None,
    credentials: str | None,
) -> None:
    """Make all clients of the running command use the given TLS options and credentials."""
    if credentials is not None:
        _use_credentials(credentials)
    chosen = _options(tls, tls_ca, tls_insecure, tls_cert, tls_key, None)
    if chosen is None:
        return
    from epochmq.runtime.tls import client_tls, outgoing_tls

    before = outgoing_tls.set(client_tls(chosen))
    click.get_current_context().call_on_close(lambda: outgoing_tls.reset(before))


def _use_credentials(path: str) -> None:
    from epochmq.auth.credentials import outgoing_credentials
    from epochmq.client.aio.client_credentials import read_credentials_file

    before = outgoing_credentials.set(read_credentials_file(path))
    click.get_current_context().call_on_close(lambda: outgoing_credentials.reset(before))


def chosen_connection() -> "ConnectionOptions | None":
    """Return TLS settings and credentials file of the running command, for other processes."""
    given = click.get_current_context().find_root().params
    names = (name.removeprefix("--").replace("-", "_") for name in (*OPTIONS, *_CREDENTIALS))
    return _options(*(given.get(name) for name in names))


def _options(
    tls: bool | None,
    tls_ca: str | None,
    tls_insecure: bool | None,
    tls_cert: str | None,
    tls_key: str | None,
    credentials: str | None,
) -> "ConnectionOptions | None":
    uses_tls = bool(tls or tls_ca or tls_insecure or tls_cert or tls_key)
    if not uses_tls and credentials is None:
        return None
    from epochmq.spark.connection_options import ConnectionOptions

    return ConnectionOptions(
        tls_enable=uses_tls,
        tls_client_auth_server=not tls_insecure,
        tls_client_trust_cert_path=tls_ca or "",
        tls_client_cert_path=tls_cert or "",
        tls_client_key_path=tls_key or "",
        credentials_path="" if credentials is None else os.path.abspath(credentials),
    )
