"""`epochmq pipeline reconcile`: was everything sent, stored and consumed, once and in time?"""

from pathlib import Path

import click

from epochmq.admin.local.name_completion import complete_topics
from epochmq.admin.local.where import namesrv_option
from epochmq.admin.pipeline.options import job_options, print_report, progress
from epochmq.admin.pipeline.values import Duration, Moment
from epochmq.admin.shared import exits
from epochmq.admin.shared.asking import chosen_connection


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option("--sent", default="", metavar="FILE", help="Events of producers: JSON lines.")
@click.option("--consumed", default="", metavar="FILE", help="Events of consumers: JSON lines.")
@click.option(
    "--trace",
    is_flag=False,
    flag_value="RMQ_SYS_TRACE_TOPIC",
    default="",
    metavar="[TOPIC]",
    help="Read events that no file contains from the message trace in this topic.",
)
@click.option("--group", "groups", multiple=True, help="Check only these consumer groups.")
@click.option("--since", type=Moment(), default=0, help="Only messages sent from this time on.")
@click.option("--until", type=Moment(), default=0, help="Only messages sent before this time.")
@click.option(
    "--grace",
    type=Duration(),
    default="30s",
    show_default=True,
    help="Younger messages may still arrive; they do not count as lost.",
)
@click.option(
    "--late",
    type=Duration(),
    default="60s",
    show_default=True,
    help="Messages consumed later than this after they were stored count as late.",
)
@click.option("--samples", type=click.IntRange(0, 10_000), default=10, show_default=True)
@namesrv_option
@job_options
@click.pass_context
def command(
    ctx: click.Context,
    topic: str,
    sent: str,
    consumed: str,
    trace: str,
    groups: tuple[str, ...],
    since: int,
    until: int,
    grace: int,
    late: int,
    samples: int,
    namesrv: str,
    dry_run: bool,
    master: str,
    conf: tuple[str, ...],
    report_file: Path | None,
    output: str,
) -> None:
    """Compare what was sent to TOPIC with what it holds, and that with what groups consumed.

    Lines of FILE are {"msgId": ..., "at": MS, "ok": true}, of consumers with "clientGroup" too.
    Exit code 4 when messages are lost, came twice, or failed for good.
    """
    from epochmq.admin.messages.position import checked_group, checked_topic
    from epochmq.spark.jobs.framework import parse_conf, spark_session
    from epochmq.spark.jobs.job_report import JobReport
    from epochmq.spark.jobs.reconcile import Reconcile, reconcile

    job = Reconcile(
        namesrv,
        checked_topic(topic),
        sent,
        consumed,
        trace and checked_topic(trace),
        tuple(map(checked_group, groups)),
        since,
        until,
        grace,
        late,
        samples,
        chosen_connection(),
    )
    if dry_run:
        from dataclasses import asdict

        report = JobReport("reconcile", "dry-run", details={"wouldCompare": asdict(job)})
        return print_report(report.finish(), output, report_file)
    with progress("comparing", total=False) as show:
        show(0, None, topic)
        with spark_session("epochmq reconcile", master, parse_conf(conf)) as session:
            verdict, report = reconcile(session, job)
    print_report(report, output, report_file)
    ctx.exit(exits.OK if verdict.is_clean else exits.UNHEALTHY)
