"""`epochmq pipeline audit`: compare the replicas of a group, running ones or their directories."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from epochmq.admin.local.where import namesrv_option
from epochmq.admin.pipeline.options import job_options, print_report, progress
from epochmq.admin.shared import exits
from epochmq.base.errors import UsageError

if TYPE_CHECKING:
    from epochmq.spark.jobs.audit import AuditedReplica, Digester
    from epochmq.spark.jobs.audit_sources import StoreReplica


@click.command()
@click.argument("group", required=False, metavar="[BROKER_NAME]")
@click.option(
    "--store",
    "stores",
    multiple=True,
    metavar="[NAME=]DIRECTORY",
    help="Offline: a replica's storePathRootDir, or a copy; at least two.",
)
@click.option("--up-to", type=int, metavar="OFFSET", help="Compare up to this log offset.")
@click.option(
    "--block-bytes",
    type=int,
    default=1 << 20,
    show_default=True,
    help="Bytes of log in one digest: a power of two, at least 4096.",
)
@click.option(
    "--records",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    help="Records to list for each run of different blocks.",
)
@click.option(
    "--spark/--no-spark",
    default=False,
    show_default=True,
    help="Let Spark digest directories; its executors must see them under the same paths.",
)
@namesrv_option
@job_options
@click.pass_context
def command(
    ctx: click.Context,
    group: str | None,
    stores: tuple[str, ...],
    up_to: int | None,
    block_bytes: int,
    records: int,
    spark: bool,
    namesrv: str,
    dry_run: bool,
    master: str,
    conf: tuple[str, ...],
    report_file: Path | None,
    output: str,
) -> None:
    """Compare all replicas of broker group BROKER_NAME up to its confirmed offset.

    Running brokers compute digests of their logs; only blocks that differ are read, down to the
    records in them. With --store the same is done over directories. Exit code 4 when replicas
    differ below the confirmed offset or end before it; bytes behind it may differ.
    """
    from epochmq.spark.jobs.audit import run_audit
    from epochmq.spark.jobs.audit_report import report_of, report_of_plan

    if bool(group) == bool(stores):
        raise UsageError("name a broker group to ask its replicas, or give --store twice or more")
    if spark and not stores:
        raise UsageError("--spark is for --store: running brokers compute digests themselves")
    with ExitStack() as stack:
        replicas: Sequence[AuditedReplica]
        digester = None
        if stores:
            held = open_stores(stores)
            replicas = held
            if spark and not dry_run:
                digester = stack.enter_context(_spark(held, master, conf))
        else:
            from epochmq.spark.jobs.audit_sources import live_replicas

            assert group is not None
            replicas = stack.enter_context(live_replicas(namesrv, group))
        if dry_run:
            report = report_of_plan([replica.shape for replica in replicas], up_to, block_bytes)
            return print_report(report, output, report_file)
        show = stack.enter_context(progress("comparing"))
        found = run_audit(
            replicas,
            up_to=up_to,
            block_bytes=block_bytes,
            digester=digester,
            progress=lambda done, total: show(done, total, f"{done >> 20:,} MiB"),
            records_max=records,
        )
    print_report(report_of(found), output, report_file)
    ctx.exit(exits.OK if found.is_sound else exits.UNHEALTHY)


def open_stores(stores: Sequence[str]) -> "list[StoreReplica]":
    """Replicas of `[NAME=]DIRECTORY`s; unnamed ones are called as short as tells them apart."""
    from epochmq.spark.jobs.audit_sources import StoreReplica

    pairs = [text.partition("=")[::2] if "=" in text else ("", text) for text in stores]
    short = _short_names([directory for _, directory in pairs])
    found = []
    for (name, directory), other in zip(pairs, short, strict=True):
        if not directory:
            raise UsageError("--store needs a directory: --store NAME=DIRECTORY")
        found.append(StoreReplica(name or other, directory))
    return found


def _short_names(directories: Sequence[str]) -> list[str]:
    parts = [Path(directory).absolute().parts for directory in directories]
    for count in range(1, max((len(each) for each in parts), default=0) + 1):
        names = ["/".join(each[-count:]) for each in parts]
        if len(set(names)) == len(names):
            return names
    raise UsageError("one directory is given twice; a replica is compared with others")


@contextmanager
def _spark(
    replicas: "Sequence[StoreReplica]", master: str, conf: Sequence[str]
) -> "Iterator[Digester]":
    from epochmq.spark.jobs.audit_report import spark_digester
    from epochmq.spark.jobs.framework import parse_conf, spark_session

    with spark_session("epochmq audit", master, parse_conf(conf)) as session:
        yield spark_digester(session, {replica.shape.name: replica for replica in replicas})
