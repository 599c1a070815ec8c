"""`epochmq dev`: a cluster on loopback, with its data in this directory."""

from pathlib import Path

import click

from epochmq.admin.local.where import DEV_DIRECTORY
from epochmq.admin.shared import exits
from epochmq.admin.shared.output import note, output_option, show
from epochmq.base.errors import UsageError

REPLICAS_MAX = 9
GROUPS_MAX = 9

dir_option = click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"Where configuration, data and logs are.  [default: {DEV_DIRECTORY}]",
)


@click.group(invoke_without_command=True)
@dir_option
@click.option("-d", "--detach", is_flag=True, help="Start and return; stop with `dev stop`.")
@click.option(
    "--replicas",
    type=click.IntRange(1, REPLICAS_MAX),
    help="Number of brokers in one group, with three controllers that elect the master and a relay"
    " that leads RocketMQ's clients to it.",
)
@click.option(
    "--acting-master",
    is_flag=True,
    help="Without controllers: a slave becomes acting master when its master fails; 2"
    " brokers a group.",
)
@click.option(
    "--groups",
    type=click.IntRange(1, GROUPS_MAX),
    help="With --acting-master: number of broker groups.  [default: 2]",
)
@click.option(
    "--secure",
    is_flag=True,
    help="With TLS, users and policies: only signed requests are served. The password of the first"
    " user is printed once.",
)
@click.option(
    "--dashboard/--no-dashboard",
    default=None,
    help="Serve web pages about the cluster.  [default: if their packages are installed]",
)
@click.pass_context
def command(
    ctx: click.Context,
    directory: Path | None,
    detach: bool,
    replicas: int | None,
    acting_master: bool,
    groups: int | None,
    secure: bool,
    dashboard: bool | None,
) -> None:
    """Start a name server and a broker as processes of their own; Ctrl-C stops all.

    They listen on loopback, at RocketMQ's ports or, if one is taken, the next free block.
    Configuration, data and logs are in ./.epochmq; its *.properties are yours to edit.
    With --replicas 3, `epochmq chaos kill master` shows a failover; with --acting-master a slave
    becomes the acting master.
    """
    ctx.obj = directory or Path(DEV_DIRECTORY)
    if ctx.invoked_subcommand is not None:
        return
    if groups and not acting_master:
        raise click.UsageError("--groups needs --acting-master")
    if acting_master:
        if replicas == 1:
            raise click.UsageError("--acting-master needs at least 2 replicas")
        replicas, groups = replicas or 2, groups or 2
    ctx.exit(_run(ctx.obj, detach, replicas, groups or 0, secure, dashboard))


def _run(
    directory: Path,
    detach: bool,
    replicas: int | None,
    groups: int,
    secure: bool,
    dashboard: bool | None,
) -> int:
    from epochmq.admin.local.config_files import PortBlock
    from epochmq.admin.local.foreground import how_to, watch
    from epochmq.admin.local.local_cluster import LocalCluster, has_dashboard_packages
    from epochmq.admin.local.secure_files import ADMIN, CREDENTIALS

    if dashboard and not has_dashboard_packages():
        raise UsageError("the dashboard needs more packages: pip install 'epochmq[dashboard]'")
    cluster = LocalCluster(directory)
    wanted = PortBlock(replicas=replicas, acting_groups=groups) if replicas else None
    with_dashboard = has_dashboard_packages() if dashboard is None else dashboard
    started = cluster.start(wanted, secure=secure, dashboard=with_dashboard)
    if started.moved_from:
        note(f"this cluster was in {started.moved_from}: its *.properties name {directory} now")
    for line in started.choice.taken if started.choice else ():
        note(line)
    if started.choice and started.choice.taken:
        note(f"using the ports from {started.choice.ports.namesrv} on instead")
    if started.password is not None:
        note(f"user {ADMIN}, password {started.password} (also in {directory / CREDENTIALS})")
    if started.dashboard_fault is not None:
        note(f"{started.dashboard_fault}; the cluster runs without it")
    if started.was_running:
        note(f"it runs already in {directory}; `epochmq dev stop` stops it")
    elif detach:
        note(f"started in {directory}; `epochmq dev stop` stops it")
    else:
        return watch(cluster)
    click.echo(how_to(cluster))
    return exits.UNHEALTHY if dashboard and started.dashboard_fault else exits.OK


@command.command()
@dir_option
@click.pass_obj
def stop(inherited: Path, directory: Path | None) -> None:
    """Stop the cluster of this directory."""
    from epochmq.admin.local.local_cluster import LocalCluster

    ran = LocalCluster(directory or inherited).stop()
    where = directory or inherited
    note(f"stopped {' and '.join(ran)}" if ran else f"nothing runs in {where}")


@command.command()
@dir_option
@output_option
@click.pass_context
def status(ctx: click.Context, directory: Path | None, output: str) -> None:
    """Show what runs; exit code 3 when nothing does, 4 when only a part."""
    from epochmq.admin.local.local_cluster import LocalCluster
    from epochmq.admin.local.processes import age_s, memory_bytes

    parts = LocalCluster(directory or ctx.obj).parts()
    rows = [
        {
            "server": part.name,
            "state": "stopped" if part.pid is None else "running",
            "pid": part.pid,
            "address": part.address,
            "seconds": None if part.pid is None else round(age_s(part.pid)),
            "memory_mib": None if part.pid is None else memory_bytes(part.pid) >> 20,
            "log": str(part.log),
        }
        for part in parts
    ]
    show(output, tuple(rows[0]), rows)
    up = sum(part.pid is not None for part in parts)
    ctx.exit({0: exits.NOT_REACHABLE, len(parts): exits.OK}.get(up, exits.UNHEALTHY))
