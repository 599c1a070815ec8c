"""`epochmq pipeline backfill`: ask an archive and the live tail of its topics as one table."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from epochmq.admin.local.where import namesrv_option
from epochmq.admin.pipeline.options import job_options, print_report
from epochmq.admin.shared.asking import chosen_connection
from epochmq.admin.shared.output import note, show
from epochmq.base.errors import UsageError

if TYPE_CHECKING:
    from epochmq.spark.jobs.backfill import Backfill
    from epochmq.spark.jobs.job_report import JobReport

VIEW = "messages"
COUNTS = f"select topic, source, count(*) as messages from {VIEW} group by 1, 2 order by 1, 2"


@click.command()
@click.argument("table")
@click.option("--topic", "topics", multiple=True, help="Only this topic; repeatable.")
@click.option("--sql", default=COUNTS, help="SQL query on the view `messages`.  [default: counts]")
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    metavar="DIRECTORY",
    help="Write the rows as Parquet into a new directory, instead of printing them.",
)
@click.option(
    "--limit", type=click.IntRange(1), default=1_000, show_default=True, help="Rows printed."
)
@click.option(
    "--allow-loss",
    is_flag=True,
    help="Continue when messages are neither in the archive nor at a broker.",
)
@namesrv_option
@job_options
def command(
    table: str,
    topics: tuple[str, ...],
    sql: str,
    to: Path | None,
    limit: int,
    allow_loss: bool,
    namesrv: str,
    dry_run: bool,
    master: str,
    conf: tuple[str, ...],
    report_file: Path | None,
    output: str,
) -> None:
    """Query the archive TABLE and what its topics hold since, each message once.

    The view `messages` has the columns of the archive and `source`, which is archive or live.
    """
    from epochmq.spark.jobs.backfill import backfill, ranges_of
    from epochmq.spark.jobs.framework import parse_conf, spark_session
    from epochmq.spark.jobs.job_report import JobReport

    report = JobReport("backfill")
    if to is not None and to.exists():
        raise UsageError(f"{to} is there already; name a new directory")
    with spark_session("epochmq backfill", master, parse_conf(conf)) as session:
        found = backfill(
            session, table, namesrv, topics=topics, allow_loss=allow_loss, tls=chosen_connection()
        )
        report.ranges = ranges_of(found.cut_over)
        report.details |= {
            "topics": found.topics,
            "liveRows": found.cut_over.live_rows,
            "lost": [str(gap) for gap in found.cut_over.lost],
        }
        if not dry_run:
            _answer(found, sql, to, limit, output, report)
    report.finish("dry-run" if dry_run else None)
    if dry_run or to is not None:
        return print_report(report, output, report_file)
    if report_file is not None:
        report_file.write_text(json.dumps(report.as_json(), indent=2, default=str) + "\n")
    note(report.as_text())  # the answer alone is on standard output


def _answer(
    found: "Backfill", sql: str, to: Path | None, limit: int, output: str, report: "JobReport"
) -> None:
    found.frame.createOrReplaceTempView(VIEW)
    rows = found.frame.sparkSession.sql(sql)
    if to is not None:
        rows.write.parquet(f"file://{to.absolute()}")
        report.rows = found.frame.sparkSession.read.parquet(f"file://{to.absolute()}").count()
        report.bytes = sum(file.stat().st_size for file in to.glob("*.parquet"))
        report.details["to"] = str(to)
        return
    taken = rows.limit(limit + 1).collect()
    show(output, rows.columns, [row.asDict() for row in taken[:limit]])
    report.rows = min(len(taken), limit)
    if len(taken) > limit:
        note(f"there are more than {limit} rows; --limit shows more, --to writes all")
