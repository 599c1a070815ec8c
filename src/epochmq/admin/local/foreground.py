"""Runs a local cluster in the foreground: a status screen until Ctrl-C stops it in order."""

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

import click

from epochmq.admin.local import processes
from epochmq.admin.local.local_cluster import LocalCluster
from epochmq.admin.local.secure_files import environment, is_secure
from epochmq.admin.shared import exits
from epochmq.admin.shared.output import note
from epochmq.runtime.main import run
from epochmq.runtime.signals import StopSignal, stop_on_signals

if TYPE_CHECKING:
    from rich.console import RenderableType

CHECK_S = 0.5
_CONSUME = "epochmq consume greetings --from first --exit"


def how_to(cluster: LocalCluster) -> str:
    """Return the addresses of the cluster, and commands to try."""
    lines = [("name server", cluster.namesrv)]
    kinds = (
        ("controller", cluster.controllers),
        ("relay", cluster.relays),
        ("broker", cluster.brokers),
    )
    for title, parts in kinds:
        several = len(parts) > 1
        lines.append((title + "s" * several, " ".join(part.address for part in parts)))
    if cluster.dashboard is not None:
        lines.append(("dashboard", f"http://{cluster.dashboard.address}/"))
    lines.append(("files", str(cluster.directory)))
    if is_secure(cluster.directory):
        variables = environment(cluster.directory)
        lines += [("elsewhere", f"export {name}={value}") for name, value in variables.items()]
    tries = ["echo hello | epochmq produce greetings", _CONSUME]
    if len(cluster.brokers) > 1:
        tries.append("epochmq chaos kill master; epochmq top")
    lines += [("" if number else "try", each) for number, each in enumerate(tries)]
    return "\n".join(f"{title:<13}{text}" for title, text in lines if text)


def watch(cluster: LocalCluster) -> int:
    """Show the cluster until it ends; returns the exit code.

    The cluster is stopped at the end in any case, except after SIGKILL.
    """
    try:
        return run(_watch(cluster))
    finally:
        ran = cluster.stop()
        note(f"stopped {' and '.join(ran)}" if ran else "it was stopped from elsewhere")


async def _watch(cluster: LocalCluster) -> int:
    with stop_on_signals() as stop:
        # The terminal was closed.
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, stop.ask, "SIGHUP")
        if not sys.stdout.isatty():
            click.echo(how_to(cluster))
            return await _until_stop(cluster, stop, None)
        from rich.live import Live

        with Live(screen(cluster), auto_refresh=False, transient=True) as live:
            return await _until_stop(cluster, stop, live.update)


async def _until_stop(cluster: LocalCluster, stop: StopSignal, draw: object) -> int:
    while not stop.asked:
        if cluster.is_given_up:
            return exits.OK
        one_of_each = len(cluster.brokers) == 1  # one of several may have been killed on purpose
        if one_of_each and any(part.pid is None for part in cluster.servers()):
            failed = await asyncio.to_thread(cluster.failed)
            for name in failed:
                note(f"epochmq: the {name} ended: {cluster.last_words(name)}")
                note(f"epochmq: see {cluster.log(name)}")
            if failed:
                return exits.FAILED
            continue
        if callable(draw):
            draw(screen(cluster), refresh=True)
        try:
            async with asyncio.timeout(CHECK_S):
                await stop.wait()
        except TimeoutError:
            continue
    return exits.OK


def screen(cluster: LocalCluster) -> "RenderableType":
    """Return one screen: the servers, and commands to try."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for title in ("SERVER", "ADDRESS", "PID", "UP", "CPU", "MEMORY"):
        table.add_column(title)
    for part in cluster.parts():
        pid = part.pid or 0
        table.add_row(
            part.name,
            part.address,
            str(pid or "-"),
            f"{processes.age_s(pid):.0f} s",
            f"{processes.cpu_seconds(pid):.1f} s",
            f"{processes.memory_bytes(pid) >> 20} MiB",
        )
    return Group(table, Text(how_to(cluster)), Text("\nCtrl-C stops all.", style="dim"))
