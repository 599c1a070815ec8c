"""`epochmq pipeline archive`: topics to a table, exactly once."""

from collections.abc import Sequence
from pathlib import Path

import click

from epochmq.admin.local.name_completion import complete_topics
from epochmq.admin.local.where import namesrv_option
from epochmq.admin.pipeline.options import (
    job_options,
    keep_days_option,
    parse,
    print_report,
    progress,
    read_from_option,
)
from epochmq.admin.shared.asking import chosen_connection
from epochmq.base.errors import UsageError
from epochmq.spark.schema_registry import SchemaRegistry
from epochmq.spark.typed import NOT_TYPED, Typing, read_schema, typing_by_registry


@click.command("archive")
@click.argument(
    "topics", shell_complete=complete_topics, nargs=-1, required=True, metavar="TOPIC..."
)
@click.option("--table", required=True, metavar="DIR|URL", help="Path or URI of the table.")
@click.option(
    "--format",
    type=click.Choice(["delta", "iceberg", "parquet"]),
    help="Format of a new table.  [default: delta]",
)
@click.option("--stream", is_flag=True, help="Continue with new messages until Ctrl-C.")
@click.option(
    "--interval",
    type=click.FloatRange(0.0),
    default=30.0,
    show_default=True,
    help="Seconds between the batches of a stream.",
)
@click.option(
    "--start",
    type=click.Choice(["earliest", "latest"]),
    default="earliest",
    show_default=True,
    help="Where a new archive begins.",
)
@click.option(
    "--max-rows",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    help="Rows of one batch, which is one transaction.",
)
@click.option(
    "--tasks",
    type=click.IntRange(1, 10_000),
    help="Tasks of one batch.  [default: the number of cores]",
)
@click.option(
    "--columns",
    metavar="NAME,...",
    help="Columns to keep, besides those with the message's position.",
)
@click.option(
    "--properties", type=click.Choice(["map", "raw", "none"]), default="map", show_default=True
)
@click.option(
    "--compression",
    type=click.Choice(["zstd", "snappy", "lz4", "gzip", "none"]),
    default="zstd",
    show_default=True,
)
@click.option(
    "--typed",
    type=click.Choice(["json", "avro", "protobuf"]),
    help="Parse bodies into typed columns; bodies with errors go to a dead-letter table.",
)
@click.option(
    "--typed-schema",
    metavar="TEXT|@FILE",
    help='json: "carrier string, delay double"; avro: @schema.avsc; protobuf: @descriptors.pb.',
)
@click.option("--typed-message", default="", metavar="NAME", help="protobuf: package.Message.")
@click.option(
    "--typed-prefix", default="", metavar="TEXT", help="Prefix of the names of typed columns."
)
@click.option(
    "--typed-registry",
    metavar="URL",
    help="Schema registry with the schemas of json and avro: http://host:8081.",
)
@click.option(
    "--typed-registry-credentials",
    default="",
    metavar="FILE",
    help="File with user:password of the registry, at the same path on every node.",
)
@click.option(
    "--typed-subject",
    metavar="NAME",
    help="Name of the schema in the registry.  [default: TOPIC-value]",
)
@click.option(
    "--allow-loss", is_flag=True, help="Continue after messages that brokers have deleted."
)
@click.option(
    "--compact-every",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Merge small files into large ones after every N batches.",
)
@keep_days_option
@read_from_option
@click.option(
    "--app",
    metavar="NAME",
    help="Name of the job that owns the table.  [default: archive:TOPIC,...]",
)
@click.option(
    "--name", default="archive.messages", show_default=True, help="Iceberg: name of the table."
)
@click.option(
    "--catalog", metavar="NAME|URL", help="Iceberg: catalog.  [default: SQLite in --table]"
)
@click.option("--checkpoint", metavar="DIR", help="Directory of the lock.  [default: in --table]")
@click.option(
    "--failover-timeout",
    "failover_timeout_s",
    type=click.FloatRange(0.0),
    default=60.0,
    show_default=True,
    help="Seconds to wait for brokers that are changing roles.",
)
@namesrv_option
@job_options
def command(
    topics: tuple[str, ...],
    typed: str | None,
    typed_schema: str | None,
    typed_message: str,
    typed_prefix: str,
    typed_registry: str | None,
    typed_registry_credentials: str,
    typed_subject: str | None,
    stream: bool,
    interval: float,
    columns: str | None,
    failover_timeout_s: float,
    namesrv: str,
    dry_run: bool,
    master: str,
    conf: tuple[str, ...],
    report_file: Path | None,
    output: str,
    **more: object,
) -> None:
    """Archive TOPICs to a Delta, Iceberg or Parquet table, exactly once.

    A killed or stopped run is simply started again: the table itself knows where it stands.
    `--master none` does without Spark, in this process.
    """
    from epochmq.spark.jobs.archive import ArchiveOptions, run_archive

    options = ArchiveOptions(
        namesrv,
        topics,
        until_now=not stream,
        interval_s=interval,
        columns=tuple(filter(None, columns.split(","))) if columns else None,
        tls=chosen_connection(),
        failover_timeout_ms=round(failover_timeout_s * 1000),
        typing=typing_of(
            typed,
            typed_schema,
            typed_message,
            typed_prefix,
            registry_of(typed_registry, typed_registry_credentials, typed_subject),
            typed_subject,
            topics,
        ),
        **more,  # type: ignore[arg-type]  # click's names are those of the fields
    )
    with progress("archive", total=not stream) as show:
        report = run_archive(
            options, master=master, conf=parse(conf), dry_run=dry_run, progress=show
        )
    print_report(report, output, report_file)


def registry_of(url: str | None, credentials: str, subject: str | None) -> SchemaRegistry | None:
    """Return the schema registry of the options, or None; `UsageError` if it has no address."""
    if url is not None:
        return SchemaRegistry(url, credentials)
    if credentials or subject:
        raise UsageError("--typed-registry-credentials and --typed-subject need --typed-registry")
    return None


def typing_of(
    format: str | None,
    schema: str | None,
    message: str,
    prefix: str,
    registry: SchemaRegistry | None = None,
    subject: str | None = None,
    topics: Sequence[str] = (),
) -> Typing:
    """What the options say of bodies; `UsageError` where one is missing or cannot be read."""
    if format is None:
        if schema or message or prefix or registry:
            raise UsageError(
                "--typed-schema, --typed-message, --typed-prefix and --typed-registry need --typed"
            )
        return NOT_TYPED
    if schema:
        schema = read_schema(format, schema, "--typed-schema")
    if registry is not None:
        return typing_by_registry(registry, format, schema, prefix, subject, topics, message)
    if not schema:
        raise UsageError(f"--typed {format} needs --typed-schema or --typed-registry")
    if format == "protobuf" and not message:
        raise UsageError("--typed protobuf needs --typed-message package.Message")
    return Typing(format, schema, message, prefix)
