"""`epochmq pipeline dlq`: a group's dead letters by cause, and sending them once more."""

from pathlib import Path

import click

from epochmq.admin.local.name_completion import complete_groups
from epochmq.admin.local.where import namesrv_option
from epochmq.admin.pipeline.options import job_options, print_report, progress
from epochmq.admin.pipeline.values import Moment
from epochmq.admin.shared.output import JSON, show


@click.command()
@click.argument("group", shell_complete=complete_groups)
@click.option(
    "--by",
    multiple=True,
    metavar="FIELD",
    help="Group by topic, tags, tries, keys, bornHost, property:NAME, body:NAME; repeatable.",
)
@click.option(
    "--where", multiple=True, metavar="FIELD=VALUE", help="Only dead letters with this value."
)
@click.option(
    "--id", "ids", multiple=True, metavar="MSG_ID", help="Only the dead letters with these ids."
)
@click.option("--since", type=Moment(), default=0, help="Only dead letters from this time on.")
@click.option("--until", type=Moment(), default=0, help="Only dead letters from before this time.")
@click.option(
    "--origins",
    type=click.IntRange(0, 100_000),
    default=200,
    show_default=True,
    help="Highest number of dead letters whose origin is looked up at the brokers.",
)
@click.option(
    "--redrive",
    default="",
    metavar="retry|origin|TOPIC",
    help="Send the dead letters again: to the group alone, to their old topic, or to"
    " another topic.",
)
@click.option(
    "--ledger",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the dead letters that were sent again. Use the same file next time,"
    " so that nothing is sent twice.",
)
@click.option(
    "--rate", type=click.FloatRange(0), default=0.0, help="Highest rate, in messages a second."
)
@namesrv_option
@job_options
def command(
    group: str,
    by: tuple[str, ...],
    where: tuple[str, ...],
    ids: tuple[str, ...],
    since: int,
    until: int,
    origins: int,
    redrive: str,
    ledger: Path | None,
    rate: float,
    namesrv: str,
    dry_run: bool,
    master: str,
    conf: tuple[str, ...],
    report_file: Path | None,
    output: str,
) -> None:
    """Show what lies in the dead letter topic of GROUP and what the letters have in common.

    Nothing is sent without --redrive. This job runs in this process, without Spark.
    """
    from epochmq.admin.messages.position import checked_group
    from epochmq.spark.jobs.dlq import Dlq, dlq
    from epochmq.spark.jobs.dlq_causes import BY, Pick, parse_where

    pick = Pick(parse_where(where), frozenset(ids), since=since, until=until)
    job = Dlq(namesrv, checked_group(group), by or BY, pick, origins, redrive, ledger, rate)
    with progress("sending") as bar:
        report = dlq(job, dry_run=dry_run, progress=bar)
    if output == JSON:
        return print_report(report, output, report_file)
    rows = report.details["causes"]
    assert isinstance(rows, list)
    show(output, (*job.by, "count", "origin", "samples"), rows)
    few = {**report.details, "causes": len(rows)}
    report.details = few
    print_report(report, output, report_file)
