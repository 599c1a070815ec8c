"""`epochmq pipeline repair`: restores damaged files of a table of the job archive."""

from pathlib import Path

import click

from epochmq.admin.pipeline.options import print_report, progress
from epochmq.admin.shared import exits
from epochmq.admin.shared.asking import chosen_connection
from epochmq.admin.shared.output import output_option


@click.command()
@click.argument("table")
@click.option(
    "--from",
    "copy",
    default="",
    metavar="DIR|URL",
    help="A copy of the table. A file is restored from it if its digest is the recorded one.",
)
@click.option(
    "-n",
    "--namesrv",
    default=None,
    metavar="HOST:PORT[;...]",
    help="Read the rows of damaged files from the topics of these name servers.",
)
@click.option(
    "--partial",
    is_flag=True,
    help="Restore rows that brokers still have, though not all of a file.",
)
@click.option(
    "--name", default="archive.messages", show_default=True, help="Iceberg: name of the table."
)
@click.option("--catalog", metavar="NAME|URL", help="Iceberg: catalog.  [default: SQLite in TABLE]")
@click.option("--dry-run", is_flag=True, help="List the damaged files, and change nothing.")
@click.option(
    "--report",
    "report_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the run report to this file, as JSON.",
)
@output_option
@click.pass_context
def command(
    ctx: click.Context,
    table: str,
    copy: str,
    namesrv: str | None,
    partial: bool,
    name: str,
    catalog: str | None,
    dry_run: bool,
    report_file: Path | None,
    output: str,
) -> None:
    """Restore the damaged files of the archive TABLE from a copy, or their rows from the topics.

    Damaged bytes are kept beside the restored file. Stop the archive job first. Exit code 4 when
    something remains damaged.
    """
    from epochmq.spark.jobs.archive_run import TaskSource
    from epochmq.spark.jobs.repair_table import DAMAGED, RepairOptions, repair

    source = TaskSource(namesrv, 60_000, tls=chosen_connection()) if namesrv else None
    options = RepairOptions(table, copy, source, partial, name, catalog)
    with progress("repair") as show:
        report = repair(options, dry_run=dry_run, progress=show)
    print_report(report, output, report_file)
    ctx.exit(exits.UNHEALTHY if report.status == DAMAGED else exits.OK)
