"""`python -m examples.demo`: the main job on this machine, with a verdict.

The working directory is the root of the checkout; `epochmq demo` runs the same in any directory.
"""

import json
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from epochmq.admin.shared import exits
from epochmq.admin.shared.output import JSON, note, output_option, print_json

if TYPE_CHECKING:
    from epochmq.admin.local.local_cluster import LocalCluster

DIRECTORY = ".epochmq-demo"
REPLICAS = 3
REPORT = "report.json"
PICTURE = "flights.png"


@click.command(
    cls=exits.Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--messages", type=click.IntRange(100), help="So many flights instead of all.")
@click.option(
    "--rate",
    type=click.FloatRange(1),
    default=5_000.0,
    show_default=True,
    help="Messages a second in the steady part, where latency is measured.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=DIRECTORY,
    show_default=True,
    help="Where the cluster lives; logs and report.json stay there.",
)
@click.option("--spark/--no-spark", default=True, help="With the archive and its report.")
@click.option("--keep", is_flag=True, help="Keep what was stored and received, too.")
@output_option
@click.pass_context
def command(
    ctx: click.Context,
    messages: int | None,
    rate: float,
    directory: Path,
    spark: bool,
    keep: bool,
    output: str,
) -> None:
    """Stream 336,776 flights through three replicas to a group of three consumers.

    A name server, three controllers, three brokers, three consumers: all are processes of their
    own. A consumer is killed on the way, and twice the master of the moment, with kill -9; the old
    masters come back as followers. Spark archives the topic to a Delta table all the while, and at
    the end reports the delays by carrier and hour from there. The verdict: nothing that was
    acknowledged is lost, all was received in order for each carrier, the replicas hold the same
    bytes, the table holds each message once and Spark's report is the data set's; how fast; a
    picture of it; exit code 0 or 1.
    """
    from examples.demo.flights import TOTAL, data_file

    source = data_file()
    _clear(directory)
    report = _play(directory, source, messages or TOTAL, rate, spark=spark)
    if not keep:
        _tidy_up(directory)
    (directory / REPORT).write_text(json.dumps(report, indent=2) + "\n")
    if output == JSON:
        print_json(report)
    else:
        from examples.demo.report import as_text

        click.echo(as_text(report))
        note(f"report: {directory / REPORT}")
    ctx.exit(exits.OK if report["verdict"] == "passed" else exits.FAILED)


def _play(
    directory: Path, source: Path, count: int, rate: float, *, spark: bool
) -> dict[str, object]:
    from epochmq.admin.local.config_files import choose_anywhere
    from epochmq.admin.local.local_cluster import LocalCluster
    from epochmq.runtime.main import run
    from examples.demo.failovers import Failovers, compare, confirmed_end
    from examples.demo.flights import flights
    from examples.demo.report import DemoEnding, build
    from examples.demo.run import Demo, Display, Plan

    _stop_at_sigterm()
    began = time.monotonic()
    cluster = LocalCluster(directory)
    ending: DemoEnding | None = None
    with Display(count) as display:
        try:
            cluster.start(choose_anywhere(REPLICAS))
            display.say(_where(cluster))
            ending = DemoEnding(directory, cluster.namesrv, display.say, spark=spark)
            plan = Plan(
                cluster.namesrv, directory, flights(source, count), count, rate, ending.begin
            )
            failovers = Failovers(cluster, display.say)
            outcome = run(Demo(plan, display, failovers).run())
            ending.finish()
            end = run(confirmed_end(cluster))
        finally:
            if ending is not None:
                ending.stop()
            cluster.stop()
    outcome.verdict.note_replicas(*compare(directory, REPLICAS, end))
    archive = ending.judge(outcome, flights(source, count), directory / PICTURE)
    return build(outcome, time.monotonic() - began, archive)


def _stop_at_sigterm() -> None:
    """Let SIGTERM do what Ctrl-C does: stop the cluster, which has processes of its own.

    A shell script starts a program in the background with SIGINT ignored.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))


def _where(cluster: "LocalCluster") -> str:
    return (
        f"name server at {cluster.namesrv}, {len(cluster.controllers)} controllers,"
        f" {len(cluster.brokers)} replicas"
    )


def _clear(directory: Path) -> None:
    """Begin with nothing; a cluster that an interrupted run left behind is stopped first."""
    from epochmq.admin.local.local_cluster import LocalCluster

    if directory.exists():
        LocalCluster(directory).stop()
        _tidy_up(directory)
        shutil.rmtree(directory / "logs", ignore_errors=True)


def _tidy_up(directory: Path) -> None:
    """Leave logs and report only; never remove what the demo did not make."""
    from epochmq.admin.local.config_files import SUFFIX, kind_of, names

    for name in names(directory):
        (directory / f"{name}{SUFFIX}").unlink(missing_ok=True)
        if kind_of(name) != "broker":
            shutil.rmtree(directory / name, ignore_errors=True)
    for number in range(REPLICAS):
        shutil.rmtree(directory / f"store-{number}", ignore_errors=True)
    shutil.rmtree(directory / "members", ignore_errors=True)
    shutil.rmtree(directory / "lake", ignore_errors=True)
    (directory / "lock").unlink(missing_ok=True)


if __name__ == "__main__":
    command.main()
