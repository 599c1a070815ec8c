"""What all jobs' commands share."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from epochmq.admin.cli import cli
from epochmq.admin.pipeline.options import (
    ProgressLines,
    job_options,
    parse,
    print_report,
    progress,
    reason_of_end,
)
from epochmq.admin.pipeline.pipeline_command import JOBS
from epochmq.base.errors import UsageError
from epochmq.spark.jobs.job_report import JobReport


@click.command()
@job_options
def job(
    dry_run: bool, master: str, conf: tuple[str, ...], report_file: Path | None, output: str
) -> None:
    """A job that only reports."""
    report = JobReport("job", rows=2)
    report.details.update(dry=dry_run, master=master, conf=parse(conf))
    with progress("job") as show:
        show(1, 2, "half")
    print_report(report.finish(), output, report_file)


def test_report_in_text_json_and_a_file(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    said = CliRunner().invoke(job, ["--report", str(file), "--conf", "spark.a=1"])
    assert "job: done in" in said.output
    assert json.loads(file.read_text())["conf"] == {"spark.a": "1"}
    found = json.loads(CliRunner().invoke(job, ["-o", "json", "--dry-run"]).output)
    assert (found["rows"], found["dry"], found["master"]) == (2, True, "local[*]")


def test_progress_without_a_terminal_is_a_line_from_time_to_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = ProgressLines("archive", every_s=10)
    for now_s in (100.0, 109.0, 110.0, 111.0, 125.0):
        lines.show(now_s, now_s, 200.0, f"{now_s:.0f} rows")
    lines.show(140.0, 1.0, None, "1 row")
    assert capsys.readouterr().err.splitlines() == [
        "archive: 110 rows (55%)",
        "archive: 125 rows (62%)",
        "archive: 1 row",
    ]


def test_bad_settings() -> None:
    with pytest.raises(UsageError, match="is not a setting of Spark"):
        parse(("x",))


def test_every_job_has_a_line_of_help_and_a_command() -> None:
    shown = CliRunner().invoke(cli, ["pipeline", "--help"])
    assert shown.exit_code == 0
    for name in JOBS:
        assert name in shown.output
        assert CliRunner().invoke(cli, ["pipeline", name, "--help"]).exit_code == 0, name


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (click.exceptions.Exit(0), ""),
        (click.exceptions.Exit(4), "it ended with exit code 4"),
        (KeyboardInterrupt(), "it was interrupted"),
        (click.Abort(), "it was interrupted"),
        (click.UsageError("no such option"), "no such option"),
        (UsageError("two\nlines"), "two"),
    ],
)
def test_why_a_job_ended(error: BaseException, reason: str) -> None:
    assert reason_of_end(error) == reason


def test_a_mistyped_job_names_the_nearest() -> None:
    said = CliRunner().invoke(cli, ["pipeline", "archiv"])
    assert said.exit_code == 2
    assert "did you mean 'archive'?" in said.output
