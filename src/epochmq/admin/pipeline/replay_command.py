"""`epochmq pipeline replay`: messages of an archive into a topic."""

from pathlib import Path

import click

from epochmq.admin.local.where import namesrv_option
from epochmq.admin.pipeline.options import job_options, print_report, progress
from epochmq.admin.pipeline.values import Moment
from epochmq.admin.shared.asking import chosen_connection


@click.command()
@click.argument("table")
@click.argument("target", metavar="TOPIC")
@click.option("--topic", default="", help="Topic to read from an archive with several topics.")
@click.option("--since", type=Moment(), default=0, help="Only messages stored from this time on.")
@click.option("--until", type=Moment(), default=0, help="Only messages stored before this time.")
@click.option("--key", "keys", multiple=True, help="Only messages with this key; repeatable.")
@click.option("--tag", "tags", multiple=True, help="Only messages with this tag; repeatable.")
@click.option(
    "--offsets",
    multiple=True,
    metavar="BROKER:QUEUE=FROM..TO",
    help="Only these queue offsets, TO excluded; repeatable.",
)
@click.option(
    "--rate", type=click.FloatRange(0), default=0.0, help="Highest rate, in messages a second."
)
@click.option(
    "--batch-rows",
    type=click.IntRange(1),
    default=200_000,
    show_default=True,
    help="Messages between two writes of the progress.",
)
@click.option(
    "--state",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the progress; a later run with the same file continues.  [default:"
    " ./replay-TOPIC.json]",
)
@namesrv_option
@job_options
def command(
    table: str,
    target: str,
    topic: str,
    since: int,
    until: int,
    keys: tuple[str, ...],
    tags: tuple[str, ...],
    offsets: tuple[str, ...],
    rate: float,
    batch_rows: int,
    state: Path | None,
    namesrv: str,
    dry_run: bool,
    master: str,
    conf: tuple[str, ...],
    report_file: Path | None,
    output: str,
) -> None:
    """Send the messages of the archive TABLE to TOPIC, each queue's in its order.

    They carry their origin in the properties REPLAY_OF (the id), REPLAY_TOPIC and REPLAY_PLACE.
    What was cut off goes on with the same --state; brokers of EpochMQ drop what they have already.
    """
    from epochmq.admin.messages.position import checked_topic
    from epochmq.spark.jobs.framework import JobStop, parse_conf, spark_session
    from epochmq.spark.jobs.replay import Replay, replay
    from epochmq.spark.jobs.replay_plan import ReplayFilters, parse_offsets

    filters = ReplayFilters(topic, since, until, keys, tags, parse_offsets(offsets))
    job = Replay(
        table,
        checked_topic(target),
        namesrv,
        state or Path(f"replay-{target.replace('%', '_')}.json"),
        filters,
        rate,
        batch_rows,
        chosen_connection(),
    )
    with (
        spark_session("epochmq replay", master, parse_conf(conf)) as session,
        JobStop() as stop,
        progress("replaying") as bar,
    ):
        report = replay(session, job, dry_run=dry_run, progress=bar, stop=stop)
    print_report(report, output, report_file)
