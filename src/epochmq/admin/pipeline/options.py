"""The options and the output that all jobs have in common."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from epochmq.admin.shared.output import JSON, Bar, note, output_option, print_json
from epochmq.spark.jobs.job_report import JobReport, Progress

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing."),
    click.option(
        "--master",
        default="local[*]",
        metavar="URL",
        show_default=True,
        help="Spark: local[N], spark://HOST:PORT, sc://HOST:PORT.",
    ),
    click.option(
        "--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; repeatable."
    ),
    click.option(
        "--report",
        "report_file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write the run report there as JSON, too.",
    ),
    output_option,
)


def job_options(function: F) -> F:
    """Add the options `dry_run`, `master`, `conf`, `report_file` and `output` to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def parse(conf: tuple[str, ...]) -> dict[str, str]:
    """Parse Spark settings."""
    from epochmq.spark.jobs.framework import parse_conf

    return parse_conf(conf)


@contextmanager
def progress(title: str, *, total: bool = True) -> Iterator[Progress]:
    """Show a progress bar on a terminal (a spinner without a total), and nothing in a pipe."""
    with Bar(title, 1.0 if total else None) as bar:

        def show(done: float, whole: float | None, text: str) -> None:
            bar.set(done / whole if whole else done, text)

        yield show


def print_report(report: JobReport, output: str, file: Path | None) -> None:
    """Print the report of a job, and write it to `file` if given."""
    if file is not None:
        file.write_text(json.dumps(report.as_json(), indent=2, default=str) + "\n")
        note(f"report: {file}")
    if output == JSON:
        print_json(report.as_json())
    else:
        click.echo(report.as_text())
