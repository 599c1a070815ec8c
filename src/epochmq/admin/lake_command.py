"""`epochmq lake`: keeps topics as tables until it is stopped."""

import logging

import click

from epochmq.admin.local.where import namesrv_option
from epochmq.admin.pipeline.options import keep_days_option, read_from_option
from epochmq.admin.shared.asking import chosen_connection
from epochmq.runtime.server_log_options import LEVELS


@click.command()
@click.option("--warehouse", required=True, metavar="DIR|URL", help="Directory of the tables.")
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600.0),
    default=10.0,
    show_default=True,
    help="Seconds between two batches of a topic.",
)
@click.option(
    "--compact-every",
    type=click.IntRange(0),
    default=30,
    show_default=True,
    metavar="N",
    help="Merge small files into large ones after every N batches; 0: never.",
)
@click.option(
    "--vacuum-hours",
    type=click.FloatRange(0.0),
    default=24.0,
    show_default=True,
    help="Delete files that a compaction replaced after this time.",
)
@keep_days_option
@click.option(
    "--threads",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Topics that are written at the same time.",
)
@click.option(
    "--catalog", metavar="NAME|URL", help="Iceberg: catalog.  [default: SQLite in each table]"
)
@read_from_option
@click.option(
    "--learner",
    is_flag=True,
    help="Follow the log of each broker group over its replication port, instead of reading each"
    " queue.",
)
@click.option("--once", is_flag=True, help="Write the messages that exist now, and exit.")
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
@click.option("--log-file", metavar="FILE", help="Log file, in addition to stderr.")
@namesrv_option
def command(
    warehouse: str,
    interval: float,
    compact_every: int,
    vacuum_hours: float,
    keep_days: int,
    threads: int,
    catalog: str | None,
    read_from: str,
    learner: bool,
    once: bool,
    log_level: str,
    log_file: str | None,
    namesrv: str,
) -> None:
    """Keep topics as Delta, Iceberg or Parquet tables below a directory or URL.

    Topics are chosen by `epochmq topic create TOPIC --table delta` (or `topic update`). Every
    message is in its table once, whatever is killed. `epochmq group lag EPOCHMQ_LAKE` shows
    the lag; `epochmq pipeline verify` compares a table with its topic.
    """
    from epochmq.runtime.logging_setup import configure
    from epochmq.spark.jobs.framework import JobStop
    from epochmq.spark.jobs.lake_service import LakeOptions, lake_service

    configure(log_level, log_file)
    options = LakeOptions(
        namesrv,
        warehouse,
        interval,
        compact_every,
        vacuum_hours,
        threads,
        catalog,
        keep_days,
        read_from,
        tls=chosen_connection(),
        learner=learner,
    )
    with lake_service(options) as service, JobStop() as stop:
        if once:
            rows = service.write_all(stop)
            failed = sorted(each.topic for each in service.tables.values() if each.failures)
            click.echo(f"{rows:,} rows in {len(service.tables)} tables")
            if failed:
                raise click.ClickException(f"not written: {', '.join(failed)} (see above)")
        else:
            service.run(stop)
    logging.getLogger(__name__).info("stopped")
