"""`epochmq backup`: backs up broker groups that run, and restores them."""

import os
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from epochmq.admin.local.where import namesrv_option
from epochmq.admin.nouns.noun_base import NounGroup, cluster_option, confirm, yes_option
from epochmq.admin.shared import exits
from epochmq.admin.shared.asking import ask
from epochmq.admin.shared.exits import nearest
from epochmq.admin.shared.output import JSON, Bar, note, output_option, print_json, show, size
from epochmq.base.errors import EpochError, NotFound, UsageError

if TYPE_CHECKING:
    from epochmq.backup.backup_files import BackupFiles
    from epochmq.backup.create_backup import Created
    from epochmq.client.aio import Admin
    from epochmq.tables.storage import Storage


broker_option = click.option(
    "-b", "--broker", "broker_name", metavar="NAME", help="One broker group only."
)


@click.group(cls=NounGroup, short_help="Back up and restore broker groups.")
def command() -> None:
    """Back up and restore broker groups: messages, topics, groups, offsets, users.

    A backup is made from the master while it runs. Only the first one copies the whole log.
    """


@command.command()
@click.argument("url")
@cluster_option
@broker_option
@namesrv_option
@output_option
def create(
    url: str, cluster: str | None, broker_name: str | None, namesrv: str, output: str
) -> None:
    """Back up broker groups into URL: all tables, and the log since the last backup there.

    URL is a directory, or what fsspec opens, such as s3://bucket/path. A backup that was
    interrupted leaves the earlier ones as they are; run the command again.
    """
    os.umask(0o077)  # backups hold messages, and passwords as far as one key protects them
    with Bar("backing up", 1.0) as bar:
        rows, problems = ask(namesrv, lambda admin: _create(admin, url, cluster, broker_name, bar))
    show(output, ("broker", "snapshot", "log", "copied", "seconds"), rows)
    if problems:
        raise EpochError("\n".join(["not everything was backed up:", *problems]))


async def _create(
    admin: "Admin", url: str, cluster: str | None, broker_name: str | None, bar: Bar
) -> "tuple[list[dict[str, Any]], list[str]]":
    """Return one row for each backup, and one line for each broker group without one."""
    from epochmq.backup.backup_files import BackupFiles, broker_groups_in, open_backups
    from epochmq.backup.backup_source import BackupSource
    from epochmq.backup.create_backup import create_backup

    storage = open_backups(url)
    groups = await _groups(admin, cluster, broker_name)
    problems = [
        f"{name} of {owner} has earlier backups here and is not registered now; delete its"
        " directory if it is gone for good"
        for owner, name in broker_groups_in(storage)
        if cluster in (None, owner) and broker_name in (None, name) and (owner, name) not in groups
    ]
    rows: list[dict[str, Any]] = []
    for owner, name in groups:
        try:
            done = await create_backup(
                BackupSource(admin, owner, name),
                BackupFiles(storage, owner, name),
                partial(_set_bar, bar, name),
            )
        except EpochError as error:
            if len(groups) == 1:
                raise
            problems.append(f"{name} of {owner}: {error}")
            continue
        if done.lost_bytes:
            note(
                f"{name}: retention deleted {size(done.lost_bytes)} of the log after the last"
                " backup and before this one; back up more often"
            )
        rows.append(_row(done))
    return rows, problems


def _set_bar(bar: Bar, name: str, at: int, end: int) -> None:
    bar.set(at / max(end, 1), f"{name} {size(at)}")


async def _groups(
    admin: "Admin", cluster: str | None, broker_name: str | None
) -> list[tuple[str, str]]:
    """Return (cluster, broker name) of the broker groups to back up."""
    groups = await admin.broker_groups(cluster)
    if broker_name is not None and broker_name not in groups:
        near = nearest(broker_name, groups)
        raise NotFound(f"no broker group '{broker_name}' is registered now{near}")
    found = [(data.cluster, name) for name, data in groups.items() if broker_name in (None, name)]
    if not found:
        raise NotFound("no broker group is registered now")
    return found


def _row(done: "Created") -> dict[str, Any]:
    snapshot = done.snapshot
    return {
        "broker": snapshot.broker_name,
        "cluster": snapshot.cluster,
        "snapshot": snapshot.id,
        "log": f"{snapshot.log_start}-{snapshot.log_end}",
        "copied": size(done.copied_bytes),
        "copiedBytes": done.copied_bytes,
        "lostBytes": done.lost_bytes,
        "seconds": round(done.seconds, 1),
    }


# Backups that exist --------------------------------------------------------------------------


def _chosen(
    storage: "Storage", cluster: str | None, broker_name: str | None
) -> "list[BackupFiles]":
    """Return the backups of the wanted broker groups; raises `NotFound` if there are none."""
    from epochmq.backup.backup_files import BackupFiles, broker_groups_in

    found = broker_groups_in(storage)
    wanted = [
        (owner, name)
        for owner, name in found
        if cluster in (None, owner) and broker_name in (None, name)
    ]
    if not wanted:
        known = ", ".join(f"{name} of {owner}" for owner, name in found) or "nothing"
        raise NotFound(f"{storage.root} has no such backup; it has {known}")
    return [BackupFiles(storage, owner, name) for owner, name in wanted]


@command.command("list")
@click.argument("url")
@cluster_option
@broker_option
@output_option
def list_backups(url: str, cluster: str | None, broker_name: str | None, output: str) -> None:
    """List the backups in URL, the oldest of each broker group first."""
    from epochmq.backup.backup_files import open_backups

    rows: list[dict[str, object]] = []
    for files in _chosen(open_backups(url), cluster, broker_name):
        for each in map(files.snapshot, files.ids()):
            rows.append(
                {
                    "cluster": each.cluster,
                    "broker": each.broker_name,
                    "snapshot": each.id,
                    "log": f"{each.log_start}-{each.log_end}",
                    "size": size(each.log_end - each.log_start),
                    "version": each.version,
                }
            )
    show(output, ("cluster", "broker", "snapshot", "log", "size"), rows)


@command.command()
@click.argument("url")
@cluster_option
@broker_option
@output_option
@click.pass_context
def verify(
    ctx: click.Context, url: str, cluster: str | None, broker_name: str | None, output: str
) -> None:
    """Read the backups in URL, and check all files and each record.

    Exit code 0 when all is sound, 4 when not, with one line for each problem.
    """
    from epochmq.backup.backup_files import open_backups
    from epochmq.backup.verify_backup import verify_backups

    is_sound = True
    for files in _chosen(open_backups(url), cluster, broker_name):
        with Bar("checking", 1.0) as bar:
            found = verify_backups(files, lambda at, end: bar.set(at / max(end, 1)))
        is_sound = is_sound and not found.problems
        if output == JSON:
            print_json({"broker": files.broker_name, "cluster": files.cluster, **asdict(found)})
            continue
        click.echo(
            f"{files.broker_name}: {found.snapshots} backups, {size(found.log_bytes)} of log in"
            f" {found.pieces} files; {'NOT SOUND' if found.problems else 'sound'}"
        )
        for problem in found.problems:
            click.echo(f"  {problem}")
    ctx.exit(exits.OK if is_sound else exits.UNHEALTHY)


@command.command()
@click.argument("url")
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    required=True,
    help="How many backups of each broker group to keep, the newest ones.",
)
@cluster_option
@broker_option
@yes_option
def prune(url: str, keep: int, cluster: str | None, broker_name: str | None, yes: bool) -> None:
    """Delete old backups in URL, and the log that only they need."""
    from epochmq.backup.backup_files import open_backups

    for files in _chosen(open_backups(url), cluster, broker_name):
        old = files.ids()[:-keep]
        if old:
            confirm(f"Delete {len(old)} backups of {files.broker_name}, up to {old[-1]}?", yes)
        dropped, freed = files.prune(keep)
        click.echo(f"{files.broker_name}: deleted {len(dropped)} backups, {size(freed)} of log")


# Restore -------------------------------------------------------------------------------------


@command.command()
@click.argument("url")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@cluster_option
@broker_option
@click.option("--snapshot", "snapshot_id", metavar="ID", help="[default: the newest one]")
@click.option(
    "--log-directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="The broker's storePathCommitLog. [default: DIRECTORY/commitlog]",
)
@output_option
def restore(
    url: str,
    directory: Path,
    cluster: str | None,
    broker_name: str | None,
    snapshot_id: str | None,
    log_directory: Path | None,
    output: str,
) -> None:
    """Restore a backup of a broker group into DIRECTORY, a broker's storePathRootDir.

    DIRECTORY must be empty. In a group of several replicas restore one, start it, and wait until it
    is the master. Then start the others on empty directories: they copy the log from it.
    """
    from epochmq.backup.backup_files import open_backups
    from epochmq.backup.restore_backup import restore_backup

    chosen = _chosen(open_backups(url), cluster, broker_name)
    if len(chosen) > 1:
        names = ", ".join(f"{each.broker_name} of {each.cluster}" for each in chosen)
        raise UsageError(f"{url} has backups of {names}; choose one with -b, and -c")
    files = chosen[0]
    ids = files.ids()
    snapshot = files.snapshot(snapshot_id or ids[-1])
    with Bar("restoring", 1.0) as bar:
        done = restore_backup(
            files,
            snapshot,
            directory,
            log_directory,
            lambda at, end: bar.set(at / max(end, 1), size(at)),
        )
    if output == JSON:
        print_json({"snapshot": snapshot.id, "directory": str(directory), **asdict(done)})
        return
    click.echo(
        f"restored {snapshot.id}: {size(done.log_bytes)} of log in {done.seconds:.1f} s\n"
        f"start a broker on it with\n"
        f"  brokerClusterName={snapshot.cluster}\n"
        f"  brokerName={snapshot.broker_name}\n"
        f"  storePathRootDir={directory.absolute()}\n"
        f"  mappedFileSizeCommitLog={snapshot.file_bytes}"
    )
    if log_directory is not None:
        click.echo(f"  storePathCommitLog={log_directory.absolute()}")
    if "config/accounts.json" in snapshot.tables and _has_users(snapshot.tables):
        note("the backup has users: the broker needs the same authKeyFile, or server credentials")


def _has_users(tables: dict[str, bytes]) -> bool:
    from epochmq.wire import json_tolerant

    content = json_tolerant.loads(tables["config/accounts.json"])
    return isinstance(content, dict) and bool(content.get("accounts"))
