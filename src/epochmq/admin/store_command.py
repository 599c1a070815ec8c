"""`epochmq store`: look at the files of a broker that is stopped."""

from pathlib import Path

import click

from epochmq.admin import exits
from epochmq.admin.output import JSON, output_option, print_json
from epochmq.admin.store_export import export
from epochmq.admin.store_files import config_option, open_files
from epochmq.admin.store_repair import repair


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
    """Read every record in DIRECTORY (storePathRootDir), derive queues and index anew, compare.

    Nothing is changed. Exit code 0 when all fits, 4 when not, with one line for each problem.
    """
    from dataclasses import asdict

    from epochmq.admin.figures import size
    from epochmq.admin.progress_bar import Bar
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
