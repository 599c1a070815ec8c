"""`epochmq store`: checks, repairs and exports the files of a broker."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from epochmq.admin.local.where import namesrv_option
from epochmq.admin.nouns.noun_base import confirm, yes_option
from epochmq.admin.shared import exits
from epochmq.admin.shared.output import JSON, note, output_option, print_json
from epochmq.base.errors import NotFound, UsageError

if TYPE_CHECKING:
    from epochmq.broker.config.options import BrokerOptions
    from epochmq.client.aio import Admin
    from epochmq.runtime.disk import RealDisk
    from epochmq.store.damage import Damage
    from epochmq.store.options import StoreOptions
    from epochmq.store.queue_table import QueueTypes
    from epochmq.store.repair import Repair


# Store export --------------------------------------------------------------------------------
# `epochmq store export`: the confirmed log of a running broker as a store directory.


@click.command()
@click.argument("broker_name")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@namesrv_option
@output_option
def export(broker_name: str, directory: Path, namesrv: str, output: str) -> None:
    """Copy the confirmed log of broker group BROKER_NAME into DIRECTORY, or go on with such a copy.

    The master sends it as to an async learner: all topics, in the log's order, with epochs. The
    copy is a store: offline audits and Spark read it, and a broker that is started on it derives
    queues and index.
    """
    from dataclasses import asdict

    from epochmq.admin.shared.output import Bar, size
    from epochmq.spark.log_copy import export_log

    with Bar("exporting", 1.0) as bar:
        done = export_log(
            namesrv,
            broker_name,
            directory,
            progress=lambda at, end: bar.set(at / max(end, 1), size(at)),
        )
    if output == JSON:
        print_json(asdict(done))
        return
    rate = done.copied_bytes / max(done.seconds, 1e-9)
    click.echo(
        f"{size(done.copied_bytes)} in {done.seconds:.1f} s ({size(int(rate))}/s);"
        f" {directory} holds the log of {broker_name} from {done.start} to {done.end}"
    )


# Store files ---------------------------------------------------------------------------------
# Opens the files of a stopped broker, for the commands `epochmq store ...`.


config_option = click.option(
    "-c",
    "--config",
    metavar="FILE",
    help="The broker's properties file, for sizes and storePathCommitLog.",
)


def open_files(directory: Path, config: str | None) -> "tuple[RealDisk, StoreOptions, QueueTypes]":
    """Return the disk of a store, its options, and the topics with batch queues.

    Raises `NotFound` when there is no commit log. The size of log files is taken from the files.
    """
    from dataclasses import replace

    from epochmq.admin.serving import read_file
    from epochmq.broker.config.options import load_options
    from epochmq.broker.config.store_keys import store_options
    from epochmq.broker.state.metadata_journal import TableJournal
    from epochmq.broker.state.topic_table import TopicTable
    from epochmq.runtime.disk import RealDisk

    properties = read_file(config) if config else {}
    options = load_options(properties, env=os.environ)
    folder, elsewhere = _log_of(directory, options, "storePathRootDir" in properties)
    log = Path(elsewhere.get(folder) or directory / folder)
    if not log.is_dir():
        hint = "" if config else "; -c FILE names a configuration with storePathCommitLog"
        raise NotFound(f"{directory} holds no store: there is no commit log in {log}{hint}")
    found_bytes = _file_bytes(log)
    if found_bytes and "mappedFileSizeCommitLog" not in properties:
        options = replace(options, mapped_file_size_commit_log=found_bytes)
    disk = RealDisk(str(directory), elsewhere=elsewhere)
    topics = TopicTable()
    TableJournal(disk).load((topics,), repair=False)
    kept = store_options(options, folder)
    return disk, replace(kept, replicated=options.enable_controller_mode), topics.has_batch_queues


def _file_bytes(log: Path) -> int | None:
    """Return the actual size of log files, which other files do not contain."""
    first = next((path for path in sorted(log.iterdir()) if path.is_file()), None)
    return first.stat().st_size if first else None


def _log_of(
    directory: Path, options: "BrokerOptions", root_is_given: bool
) -> tuple[str, dict[str, str]]:
    """Find the log as the broker does; a log below the broker's root is below `directory`."""
    from epochmq.broker.config.store_keys import log_dir
    from epochmq.runtime.config_text import store_paths

    wanted = options.store_path_root_dir if root_is_given else str(directory)
    root, path, said = store_paths(wanted, options.store_path_commit_log)
    if said:
        note(said)
    return log_dir(root, path)


# Store repair --------------------------------------------------------------------------------
# `epochmq store repair`: finds damage in a stopped broker's log, and repairs it in two ways.


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@config_option
@click.option(
    "--from",
    "replica",
    metavar="HOST:PORT",
    help="Copy the damaged bytes from this broker, a replica that runs.",
)
@click.option(
    "--skip-damaged",
    is_flag=True,
    help="Replace the damaged messages with a filler; all other messages keep their offsets.",
)
@yes_option
@click.pass_context
def repair(
    ctx: click.Context,
    directory: Path,
    config: str | None,
    replica: str | None,
    skip_damaged: bool,
    yes: bool,
) -> None:
    """Read the log in DIRECTORY (storePathRootDir), and say which of its bytes are damaged.

    With --from or --skip-damaged they are repaired; where a checksum tells that one bit was
    flipped, that bit is flipped back in either case. The old bytes are kept in DIRECTORY/cut.
    Without one of the two nothing is changed. Exit code 0 when the log is sound, 4 when not.
    """
    from epochmq.runtime.own_host import boot_id
    from epochmq.store.repair import Repair

    if replica and skip_damaged:
        raise UsageError("--from and --skip-damaged exclude each other")
    disk, options, types = open_files(directory, config)
    work = Repair(disk, options, types, boot=boot_id())
    try:
        if not work.damages:
            click.echo("the log is sound")
            return
        for damage in work.damages:
            click.echo(f"{damage}{_how(damage)}")
        if not replica and not skip_damaged:
            note("nothing was changed; --from HOST:PORT or --skip-damaged repairs it")
            ctx.exit(exits.UNHEALTHY)
        way = f"with the bytes of {replica}" if replica else "and give up what cannot be restored"
        confirm(f"Repair {len(work.damages)} ranges {way}?", yes)
        _repair(work, replica)
        left = work.search()
        for path in work.kept:
            click.echo(f"kept what was overwritten in {directory / path}")
        for damage in left:
            click.echo(f"still damaged: {damage}")
        if not left:
            click.echo("the log is sound")
        ctx.exit(exits.UNHEALTHY if left else exits.OK)
    finally:
        work.close()


def _how(damage: "Damage") -> str:
    return "; the bit can be restored" if damage.bit is not None else ""


def _repair(work: "Repair", replica: str | None) -> None:
    for damage in work.damages:
        if work.mend(damage):
            continue
        if replica is None:
            work.skip(damage)
        else:
            low, high = work.around(damage)
            work.copy(damage, low, _read_log(replica, low, high))


def _read_log(address: str, low: int, high: int) -> bytes:
    """Read bytes `[low, high)` of the log of the broker at `address`, as far as they are
    confirmed.
    """
    from epochmq.admin.shared.asking import ask
    from epochmq.base.limits import BULK_READ_BYTES_MAX
    from epochmq.client.aio.bulk_calls import BulkCalls

    async def read(admin: "Admin") -> bytes:
        calls = BulkCalls(admin.instance)
        data = b""
        while low + len(data) < high:
            at = low + len(data)
            part = await calls.log(address, at, min(high - at, BULK_READ_BYTES_MAX))
            if not part.data:
                break
            data += part.data[: high - at]
        return data

    return ask(address, read)


# Store command -------------------------------------------------------------------------------


@click.group()
def command() -> None:
    """Check or repair the files of a stopped broker, or copy the log of one that runs."""


command.add_command(export)
command.add_command(repair)


@command.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@config_option
@output_option
@click.pass_context
def verify(ctx: click.Context, directory: Path, config: str | None, output: str) -> None:
    """Read every record in DIRECTORY (storePathRootDir), derive queues and index, and compare.

    Nothing is changed. Exit code 0 when all fits, 4 when not, with one line for each problem.
    """
    from dataclasses import asdict

    from epochmq.admin.shared.output import Bar, size
    from epochmq.store.verify import verify_directory

    disk, options, types = open_files(directory, config)
    with Bar("checking", 1.0) as bar:
        found = verify_directory(
            disk,
            options,
            lambda done, total: bar.set(done / max(total, 1), size(done)),
            types,
        )
    if output == JSON:
        print_json(asdict(found))
    else:
        click.echo(
            f"{found.records:,} records in {size(found.log_end - found.log_start)},"
            f" {found.units:,} entries in {found.queues:,} queues,"
            f" {found.index_items:,} keys; {'sound' if not found.problems else 'NOT SOUND'}"
        )
        for problem in found.problems:
            click.echo(f"  {problem}")
    ctx.exit(exits.UNHEALTHY if found.problems else exits.OK)
