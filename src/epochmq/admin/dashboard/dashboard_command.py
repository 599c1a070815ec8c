"""`epochmq dashboard`: web pages about clusters, until SIGTERM or Ctrl-C."""

import os
from pathlib import Path
from typing import Any

import click

from epochmq.admin import serving
from epochmq.admin.local.where import DEV_DIRECTORY, ENVIRONMENT, default_namesrv

IMPORTANT = ("bindAddress", "listenPort", "clusters", "namesrvAddr", "dataDir", "readOnly")


@click.command()
@click.option("-n", "--namesrv", metavar="HOST:PORT[;...]", help="Name servers of the cluster.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Port of the pages. [default: 8082]",
)
@serving.server_options
def command(namesrv: str | None, port: int | None, **given: Any) -> None:
    """Serve web pages about clusters, for a browser on this machine.

    The pages show broker groups with a timeline of failovers, topics, consumer groups with their
    lag, messages, dead letters, and what waits. One dashboard serves several clusters, RocketMQ's
    own too. Users of a cluster with users log in with their name and password, and have their
    rights at the brokers.

    Example: epochmq dashboard --set 'clusters=prod=10.0.0.1:9876;test=10.0.1.1:9876'
    """
    from epochmq.admin.dashboard.options import DashboardOptions, load_options

    flags = serving.Flags(**given)
    if flags.help_options:
        return serving.explain_options(DashboardOptions, flags.output)
    settings = serving.read_settings(flags)
    if namesrv is not None:
        settings["namesrvAddr"] = namesrv
    if port is not None:
        settings["listenPort"] = str(port)
    found = default_namesrv() if not settings.keys() & {"clusters", "namesrvAddr"} else None
    if found is not None:
        settings["namesrvAddr"] = found
    options = serving.load(load_options, settings, flags)
    if flags.shows:
        return serving.print_options(options, flags, IMPORTANT)
    from epochmq.admin.dashboard.dashboard_server import main as serve
    from epochmq.runtime.main import run

    directory = Path(options.data_dir) if options.data_dir else _default_directory(found)
    run(serve(options, directory), uvloop=serving.uses_uvloop(options, flags))


def _default_directory(found: str | None) -> Path:
    """Return the directory of the cluster of `epochmq dev` here, if that is shown, else the user's.

    A cluster that is removed takes its files with it: its ledgers do not fit another one.
    """
    is_named = ENVIRONMENT in os.environ
    if found is not None and not is_named and Path(DEV_DIRECTORY).is_dir():
        return Path(DEV_DIRECTORY) / "dashboard"
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "epochmq" / "dashboard"
