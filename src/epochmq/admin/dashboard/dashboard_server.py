"""Runs the dashboard: its port, its directory, and the end of everything at a stop."""

import asyncio
import contextlib
import fcntl
import logging
import os
import secrets
import ssl
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from epochmq.admin.dashboard.actions import Actions
from epochmq.admin.dashboard.cluster_client import ClusterClient
from epochmq.admin.dashboard.dashboard_app import DashboardApp
from epochmq.admin.dashboard.options import DashboardOptions
from epochmq.admin.dashboard.sessions import SessionTable
from epochmq.admin.dashboard.watched_cluster import WatchedCluster
from epochmq.admin.dashboard.web_security import WebSecurity
from epochmq.auth.credentials import Credentials, outgoing_credentials
from epochmq.base.errors import EnvironmentFault
from epochmq.client.aio.client_credentials import (
    ACCESS_KEY_VARIABLE,
    FILE_VARIABLE,
    SECRET_KEY_VARIABLE,
    credentials_of,
)
from epochmq.runtime.listen import listen
from epochmq.runtime.signals import reload_on_hangup, stop_on_signals

log = logging.getLogger(__name__)

TOKEN_BYTES = 32
CONNECTIONS_MAX = 500
HEAD_BYTES_MAX = 16 * 1024
STOP_S = 2
_MS_PER_MINUTE = 60_000


def own_credentials() -> Credentials | None:
    """Return the user with which the dashboard watches clusters, and hide it from everything else.

    Connections without a user take that of the process. Here they are those of visitors, who must
    not get its rights.
    """
    found = outgoing_credentials.get() or credentials_of(os.environ)
    outgoing_credentials.set(None)
    for name in (ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE, FILE_VARIABLE):
        os.environ.pop(name, None)
    return found


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Make the directory and use it alone: two dashboards would send a dead letter twice.

    Raises:
        EnvironmentFault: it cannot be made or written, or another dashboard uses it.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = (directory / "lock").open("w")
    except OSError as error:
        raise EnvironmentFault(
            f"cannot use {directory}: {error.strerror}; see option dataDir"
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise EnvironmentFault(
                f"another dashboard uses {directory}; give this one another dataDir"
            ) from None
        yield


async def main(options: DashboardOptions, directory: Path) -> None:
    """Run the dashboard until a signal.

    Args:
        options: the options, with at least one cluster.
        directory: where the record of actions and the ledgers are.
    """
    own = own_credentials()
    clusters = {
        each.name: WatchedCluster(
            ClusterClient(each.name, each.namesrv, None),
            ClusterClient(each.name, each.namesrv, own) if own is not None else None,
        )
        for each in options.shown_clusters()
    }
    sessions = SessionTable(
        lambda: secrets.token_urlsafe(TOKEN_BYTES),
        options.session_idle_minutes * _MS_PER_MINUTE,
        options.session_hours * 60 * _MS_PER_MINUTE,
    )
    with locked(directory):
        actions = Actions(directory, read_only=options.read_only)
        dashboard = DashboardApp(clusters, actions, sessions, secure_cookies=options.uses_tls)
        await _serve(options, dashboard)
        await dashboard.stop()
        for watched in clusters.values():
            await watched.close()


async def _serve(options: DashboardOptions, dashboard: DashboardApp) -> None:
    app = WebSecurity(dashboard.app, options.hosts(), uses_tls=options.uses_tls)
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        timeout_graceful_shutdown=STOP_S,
    )
    sock = listen(options.bind_address, options.listen_port, origin="listenPort")
    if options.cert_path:
        config.load()
        config.ssl = _tls(options)
    server = _Server(config)
    port = sock.getsockname()[1]
    scheme = "https" if options.cert_path else "http"
    shown = f"[{options.bind_address}]" if ":" in options.bind_address else options.bind_address
    with stop_on_signals() as stop, reload_on_hangup():
        serving = asyncio.create_task(server.serve(sockets=[sock]))
        watching = asyncio.create_task(dashboard.run())
        stopping = asyncio.create_task(stop.wait())
        log.info(
            "dashboard at %(scheme)s://%(host)s:%(port)d/",
            {"scheme": scheme, "host": shown, "port": port},
        )
        await asyncio.wait((serving, watching, stopping), return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        for task in (watching, stopping):
            task.cancel()
        await dashboard.stop()
        await asyncio.gather(serving, watching, stopping, return_exceptions=True)
    for task in (serving, watching):
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
    log.info("dashboard stopped: %(reason)s", {"reason": stop.reason})


class _Server(uvicorn.Server):
    """A server that leaves signals to this process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture nothing."""
        yield


def _tls(options: DashboardOptions) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(options.cert_path, options.key_path)
    except OSError as error:  # also ssl.SSLError
        raise EnvironmentFault(
            f"cannot use certPath {options.cert_path} with keyPath {options.key_path}: {error}"
        ) from None
    return context
