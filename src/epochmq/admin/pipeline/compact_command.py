"""`epochmq pipeline compact`: of a changelog topic the latest message of each key."""

from pathlib import Path

import click

from epochmq.admin.local.name_completion import complete_topics
from epochmq.admin.local.where import default_namesrv
from epochmq.admin.pipeline.options import job_options, print_report, progress
from epochmq.admin.shared.asking import chosen_connection


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.argument("target", metavar="DIRECTORY")
@click.option("--table", default="", help="The archive to read.")
@click.option(
    "-n",
    "--namesrv",
    default=None,
    metavar="HOST:PORT[;...]",
    help="Name servers: also read messages that are not in the table yet.  [default"
    " without --table: as everywhere]",
)
@click.option(
    "--format", type=click.Choice(["delta", "parquet"]), help="[default: as it is, or parquet]"
)
@click.option(
    "--key",
    default="keys",
    show_default=True,
    help="What identifies a message: keys, orderingKey or property:NAME.",
)
@click.option("--tombstone-tag", default="", help="A message with this tag deletes its key.")
@job_options
def command(
    topic: str,
    target: str,
    table: str,
    namesrv: str | None,
    format: str | None,
    key: str,
    tombstone_tag: str,
    dry_run: bool,
    master: str,
    conf: tuple[str, ...],
    report_file: Path | None,
    output: str,
) -> None:
    """Write the latest message of each key of TOPIC to DIRECTORY, in place of what is there.

    Reads an archive, or the topic itself, or both with an exact seam. An empty body deletes a key.
    """
    from epochmq.admin.messages.position import checked_topic
    from epochmq.spark.jobs.compact import Compact, compact
    from epochmq.spark.jobs.framework import parse_conf, spark_session

    servers = namesrv or ("" if table else default_namesrv())
    job = Compact(
        target,
        checked_topic(topic),
        table,
        servers,
        format,
        key,
        tombstone_tag,
        chosen_connection(),
    )
    with progress("compacting", total=False) as show:
        show(0, None, topic)
        with spark_session("epochmq compact", master, parse_conf(conf)) as session:
            report = compact(session, job, dry_run=dry_run)
    print_report(report, output, report_file)
