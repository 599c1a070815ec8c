"""`epochmq pipeline upsert`: keeps a table with the latest message of each key of a topic."""

from pathlib import Path

import click

from epochmq.admin.local.name_completion import complete_topics
from epochmq.admin.local.where import namesrv_option
from epochmq.admin.pipeline.options import print_report, progress, read_from_option
from epochmq.admin.shared.asking import chosen_connection
from epochmq.admin.shared.output import output_option


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option("--table", required=True, metavar="DIR|URL", help="Path or URI of the table.")
@click.option(
    "--format",
    type=click.Choice(["delta", "iceberg"]),
    help="Format of a new table.  [default: delta]",
)
@click.option(
    "--key",
    default="keys",
    show_default=True,
    help="What identifies a message: keys, orderingKey or property:NAME.",
)
@click.option("--tombstone-tag", default="", help="A message with this tag deletes its key.")
@click.option("--stream", is_flag=True, help="Continue with new messages until Ctrl-C.")
@click.option(
    "--interval",
    type=click.FloatRange(0.0),
    default=10.0,
    show_default=True,
    help="Seconds between the batches of a stream.",
)
@click.option(
    "--max-rows",
    type=click.IntRange(1),
    default=100_000,
    show_default=True,
    help="Messages of one batch, which is one transaction; they are in memory.",
)
@click.option(
    "--compact-every",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Merge small files, and delete unused ones, after every N batches.",
)
@click.option(
    "--cluster", is_flag=True, help="Sort all rows by key at each compaction, for readers by key."
)
@click.option(
    "--buckets",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Partition a new table by key into N buckets; small batches rewrite less.",
)
@click.option(
    "--allow-loss", is_flag=True, help="Continue after messages that brokers have deleted."
)
@click.option(
    "--name", default="archive.messages", show_default=True, help="Iceberg: name of the table."
)
@click.option(
    "--catalog", metavar="NAME|URL", help="Iceberg: catalog.  [default: SQLite in --table]"
)
@read_from_option
@click.option("--dry-run", is_flag=True, help="Print what would be done, and change nothing.")
@click.option(
    "--report",
    "report_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the run report to this file, as JSON.",
)
@output_option
@namesrv_option
def command(
    topic: str,
    table: str,
    format: str | None,
    key: str,
    tombstone_tag: str,
    stream: bool,
    interval: float,
    max_rows: int,
    compact_every: int,
    cluster: bool,
    buckets: int,
    allow_loss: bool,
    name: str,
    catalog: str | None,
    read_from: str,
    dry_run: bool,
    report_file: Path | None,
    output: str,
    namesrv: str,
) -> None:
    """Merge the messages of TOPIC by key into a Delta or Iceberg table; start it again to go on.

    A row has the latest message of its key. A key whose latest message has an empty body, or the
    tag for deletion, stays as a row with deleted = true.
    """
    from epochmq.spark.jobs.upsert import UpsertOptions, run_upsert

    options = UpsertOptions(
        namesrv,
        topic,
        table,
        format,
        key,
        tombstone_tag,
        until_now=not stream,
        interval_s=interval,
        max_rows=max_rows,
        compact_every=compact_every,
        cluster=cluster,
        buckets=buckets,
        allow_loss=allow_loss,
        name=name,
        catalog=catalog,
        read_from=read_from,
        tls=chosen_connection(),
    )
    with progress("upsert", total=False) as show:
        report = run_upsert(options, dry_run=dry_run, progress=show)
    print_report(report, output, report_file)
