"""`epochmq chaos`: injects faults into this directory's cluster, started by `epochmq dev`."""

import asyncio
import os
import signal
from pathlib import Path

import click

from epochmq.admin.local.name_completion import complete_roles
from epochmq.admin.local.where import DEV_DIRECTORY
from epochmq.admin.shared.output import note
from epochmq.base.errors import NotFound, NotReachable

_ROLES = """\b
ROLE is master, slave, controller-leader, controller-follower, all, or the name
of a server as `epochmq dev status` shows it (broker-1, controller-0, namesrv).
"""


@click.group(
    epilog=_ROLES, short_help="Kill, pause and resume servers of this directory's cluster."
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEV_DIRECTORY,
    show_default=True,
    help="Where the cluster was started.",
)
@click.pass_context
def command(ctx: click.Context, directory: Path) -> None:
    """Do harm to the cluster that `epochmq dev --replicas 3` started here, and see it live on.

    `epochmq top` shows what happens.
    """
    ctx.obj = directory


@command.command(epilog=_ROLES)
@click.argument("role", shell_complete=complete_roles)
@click.pass_obj
def kill(directory: Path, role: str) -> None:
    """Kill a server with SIGKILL: no handler runs, nobody is told. `chaos start` brings it back."""
    _signal(directory, role, signal.SIGKILL, "killed")


@command.command(epilog=_ROLES)
@click.argument("role", shell_complete=complete_roles)
@click.pass_obj
def pause(directory: Path, role: str) -> None:
    """Stop a server's time (SIGSTOP): it hears and says nothing, its connections stay open."""
    _signal(directory, role, signal.SIGSTOP, "paused")


@command.command(epilog=_ROLES)
@click.argument("role", default="all", shell_complete=complete_roles)
@click.pass_obj
def resume(directory: Path, role: str) -> None:
    """Let a paused server go on (SIGCONT); without ROLE all of them."""
    _signal(directory, role, signal.SIGCONT, "resumed", only_paused=True)


@command.command(epilog=_ROLES)
@click.argument("role", default="all", shell_complete=complete_roles)
@click.pass_obj
def start(directory: Path, role: str) -> None:
    """Start a server that was killed; without ROLE all that do not run."""
    from epochmq.admin.local.local_cluster import LocalCluster
    from epochmq.admin.local.server_roles import find
    from epochmq.admin.local.where import use_files_of

    cluster = LocalCluster(directory)
    use_files_of(directory)
    for part in asyncio.run(find(cluster, role)):
        if part.pid is None:
            cluster.start_one(part.name)
            note(f"started {part.name} ({part.address})")


def _signal(
    directory: Path,
    role: str,
    number: signal.Signals,
    done: str,
    *,
    only_paused: bool = False,
) -> None:
    from epochmq.admin.local.local_cluster import LocalCluster
    from epochmq.admin.local.processes import is_paused
    from epochmq.admin.local.server_roles import find
    from epochmq.admin.local.where import use_files_of

    cluster = LocalCluster(directory)
    use_files_of(directory)
    if not any(part.pid for part in cluster.parts()):
        raise NotReachable(f"no cluster runs in {directory}; `epochmq dev --replicas 3` starts one")
    hit = [part for part in asyncio.run(find(cluster, role)) if part.pid is not None]
    if not hit:
        raise NotFound(f"{role} does not run")
    for part in hit:
        assert part.pid is not None
        if only_paused and not is_paused(part.pid):
            note(f"{part.name} ({part.address}, process {part.pid}) is not paused")
            continue
        os.kill(part.pid, number)
        note(f"{done} {part.name} ({part.address}, process {part.pid})")
