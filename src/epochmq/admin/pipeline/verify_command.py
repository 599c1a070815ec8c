"""`epochmq pipeline verify`: checks a table of the job archive."""

from pathlib import Path

import click

from epochmq.admin.pipeline.options import (
    NO_SPARK,
    job_options_without_spark,
    print_report,
    progress,
)
from epochmq.admin.shared import exits
from epochmq.admin.shared.asking import chosen_connection
from epochmq.base.errors import UsageError


@click.command()
@click.argument("table")
@click.option(
    "-n",
    "--namesrv",
    default=None,
    metavar="HOST:PORT[;...]",
    help="Compare every row with the topics of these name servers.  [default: the table alone]",
)
@click.option("--replicas", is_flag=True, help="Compare the replicas of the brokers too (audit).")
@click.option(
    "--name", default="archive.messages", show_default=True, help="Iceberg: name of the table."
)
@click.option("--catalog", metavar="NAME|URL", help="Iceberg: catalog.  [default: SQLite in TABLE]")
@job_options_without_spark
@click.pass_context
def command(
    ctx: click.Context,
    table: str,
    namesrv: str | None,
    replicas: bool,
    name: str,
    catalog: str | None,
    dry_run: bool,
    master: str,
    conf: tuple[str, ...],
    report_file: Path | None,
    output: str,
) -> None:
    """Check the archive TABLE: digests, pages, rows, bodies, and that no message is missing.

    With --namesrv every row is compared with the message that the brokers have at its queue offset;
    rows that retention has deleted there are counted as expired. Exit code 4 for a damaged table.
    """
    from epochmq.spark.jobs.archive_run import TaskSource
    from epochmq.spark.jobs.framework import parse_conf, spark_session
    from epochmq.spark.jobs.verify_table import VerifyOptions, audit_of, verify

    if replicas and not namesrv:
        raise UsageError("--replicas needs --namesrv, the name servers of the brokers")
    source = TaskSource(namesrv, 60_000, tls=chosen_connection()) if namesrv else None
    audits = audit_of(namesrv, chosen_connection()) if replicas and namesrv else None
    options = VerifyOptions(table, source, audits, name, catalog)
    with progress("verify") as show:
        if master == NO_SPARK:
            report = verify(options, dry_run=dry_run, progress=show)
        else:
            with spark_session("epochmq verify", master, parse_conf(conf)) as session:
                report = verify(options, spark=session, dry_run=dry_run, progress=show)
    print_report(report, output, report_file)
    ctx.exit(exits.UNHEALTHY if report.details.get("problems") else exits.OK)
