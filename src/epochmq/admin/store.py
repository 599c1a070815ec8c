"""`epochmq store`: look at the files of a broker that is stopped."""

import os
from pathlib import Path

import click

from epochmq.admin import exits
from epochmq.admin.output import JSON, output_option, print_json
from epochmq.admin.store_export import export
from epochmq.base.errors import NotFound


def _file_bytes(log: Path) -> int | None:
    """The size of log files as it is: a broker's other files do not tell."""
    first = next((path for path in sorted(log.iterdir())), None)
    return first.stat().st_size if first else None


@click.group()
def command() -> None:
    """Check the files of a broker that is stopped, or copy the log of one that runs."""


command.add_command(export)


@command.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "-c",
    "--config",
    metavar="FILE",
    help="The broker's properties file, for sizes and storePathCommitLog.",
)
@output_option
@click.pass_context
def verify(ctx: click.Context, directory: Path, config: str | None, output: str) -> None:
    """Read every record in DIRECTORY (storePathRootDir), derive queues and index anew, compare.

    Nothing is changed. Exit code 0 when all fits, 4 when not, with one line for each problem.
    """
    from dataclasses import asdict, replace

    from epochmq.admin.figures import size
    from epochmq.admin.progress import Bar
    from epochmq.admin.serving import read_file
    from epochmq.broker.metadata.files import load_table
    from epochmq.broker.metadata.topics import TopicTable
    from epochmq.broker.options import load_options
    from epochmq.broker.store_keys import log_dir, store_options
    from epochmq.runtime.disk import RealDisk
    from epochmq.store.verify import verify_directory

    properties = read_file(config) if config else {}
    options = load_options(properties, env=os.environ)
    folder, elsewhere = log_dir(str(directory), options.store_path_commit_log)
    log = Path(elsewhere.get(folder) or directory / folder)
    if not log.is_dir():
        hint = "" if config else "; -c FILE names a configuration with storePathCommitLog"
        raise NotFound(f"{directory} holds no store: there is no commit log in {log}{hint}")
    found_bytes = _file_bytes(log)
    if found_bytes and "mappedFileSizeCommitLog" not in properties:
        options = replace(options, mapped_file_size_commit_log=found_bytes)
    disk = RealDisk(str(directory), elsewhere=elsewhere)
    topics = TopicTable()
    load_table(disk, topics)
    with Bar("checking", 1.0) as bar:
        found = verify_directory(
            disk,
            store_options(options, folder),
            lambda done, total: bar.set(done / max(total, 1), size(done)),
            topics.has_batch_queues,
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
