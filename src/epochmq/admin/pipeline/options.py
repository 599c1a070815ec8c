"""The options and the output that all jobs have in common."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from epochmq.admin.shared.output import JSON, Bar, note, output_option, print_json
from epochmq.spark.jobs.job_report import JobReport, Progress

F = TypeVar("F", bound=Callable[..., Any])

NO_SPARK = "none"
LINE_EVERY_S = 10.0
"""The time between two lines of progress where there is no terminal."""

_DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Print what would be done, and change nothing."
)
_MASTER = click.option(
    "--master",
    default="local[*]",
    metavar="URL",
    show_default=True,
    help="Spark: local[N], spark://HOST:PORT, sc://HOST:PORT.",
)
_MASTER_OR_NONE = click.option(
    "--master",
    default=NO_SPARK,
    metavar="URL",
    show_default=True,
    help="none: threads of this process; or Spark: local[N], spark://HOST:PORT.",
)
_OPTIONS = (
    click.option(
        "--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; repeatable."
    ),
    click.option(
        "--report",
        "report_file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Also write the run report to this file, as JSON.",
    ),
    output_option,
)


keep_days_option = click.option(
    "--keep-days",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Remove rows that were stored more than N days ago (UTC).  [default: keep all]",
)


read_from_option = click.option(
    "--read-from",
    type=click.Choice(["auto", "master", "follower"]),
    default="auto",
    show_default=True,
    help="Replicas that serve the messages; followers need slaveReadEnable=true.",
)


def job_options(function: F) -> F:
    """Add the options `dry_run`, `master`, `conf`, `report_file` and `output` to a command."""
    for option in reversed((_DRY_RUN, _MASTER, *_OPTIONS)):
        function = option(function)
    return function


def job_options_without_spark(function: F) -> F:
    """Add the options of `job_options` to a command that runs without Spark by default."""
    for option in reversed((_DRY_RUN, _MASTER_OR_NONE, *_OPTIONS)):
        function = option(function)
    return function


def parse(conf: tuple[str, ...]) -> dict[str, str]:
    """Parse Spark settings."""
    from epochmq.spark.jobs.framework import parse_conf

    return parse_conf(conf)


@contextmanager
def progress(title: str, *, total: bool = True) -> Iterator[Progress]:
    """Show a progress bar on a terminal (a spinner without a total), otherwise lines on stderr.

    The progress is also reported to the cluster, for its dashboard.
    """
    lines = ProgressLines(title) if not sys.stderr.isatty() else None
    with _reported(title) as report, Bar(title, 1.0 if total else None) as bar:

        def show(done: float, whole: float | None, text: str) -> None:
            bar.set(done / whole if whole else done, text)
            report(f"{text} ({done / whole:.0%})" if whole else text)
            if lines is not None:
                lines.show(time.monotonic(), done, whole, text)

        yield show


@contextmanager
def _reported(title: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that notes how far the running command is, and note its end."""
    context = click.get_current_context(silent=True)
    namesrv = context.params.get("namesrv") if context is not None else None
    if context is None or not namesrv or context.params.get("dry_run"):
        yield lambda _text: None
        return
    from epochmq.admin.shared.asking import chosen_connection
    from epochmq.spark.jobs.job_status import job_reports

    job = job_name(context)
    with job_reports(namesrv, chosen_connection()) as reports:
        reports.note(job, text=title)
        try:
            yield lambda text: reports.note(job, text=text)
        except BaseException as error:
            reports.end(job, reason_of_end(error))
            raise
        reports.end(job)


def reason_of_end(error: BaseException) -> str:
    """Return why a job failed, in one line; empty if `error` only ends the command."""
    from epochmq.admin.shared.exits import explain

    if isinstance(error, click.exceptions.Exit):
        return f"it ended with exit code {error.exit_code}" if error.exit_code else ""
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return "it was interrupted"
    if isinstance(error, click.ClickException):
        return error.format_message()
    return explain(error).splitlines()[0]


def job_name(context: click.Context) -> str:
    """Return the name of a job: its command with its arguments, as "archive:orders"."""
    names = [each.name for each in context.command.params if isinstance(each, click.Argument)]
    values = [context.params.get(name or "") for name in names]
    texts = [" ".join(v) if isinstance(v, tuple) else str(v) for v in values if v]
    return ":".join([str(context.info_name), *texts])


class ProgressLines:
    """Prints the progress of a job as a line on stderr from time to time, for logs."""

    def __init__(self, title: str, every_s: float = LINE_EVERY_S) -> None:
        self._title = title
        self._every_s = every_s
        self._next_s: float | None = None

    def show(self, now_s: float, done: float, whole: float | None, text: str) -> None:
        """Print a line if the last one is old enough; a job that is shorter prints none."""
        if self._next_s is None:
            self._next_s = now_s + self._every_s
        if now_s < self._next_s:
            return
        self._next_s = now_s + self._every_s
        share = f" ({done / whole:.0%})" if whole else ""
        note(f"{self._title}: {text}{share}")


def print_report(report: JobReport, output: str, file: Path | None) -> None:
    """Print the report of a job, and write it to `file` if given."""
    if file is not None:
        file.write_text(json.dumps(report.as_json(), indent=2, default=str) + "\n")
        note(f"report: {file}")
    if output == JSON:
        print_json(report.as_json())
    else:
        click.echo(report.as_text())
