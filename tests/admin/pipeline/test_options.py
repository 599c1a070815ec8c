"""What all jobs' commands share."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from epochmq.admin.cli import cli
from epochmq.admin.pipeline.options import job_options, parse, print_report, progress
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


def test_bad_settings() -> None:
    with pytest.raises(UsageError, match="is no setting of Spark"):
        parse(("x",))


def test_every_job_has_a_line_of_help_and_a_command() -> None:
    shown = CliRunner().invoke(cli, ["pipeline", "--help"])
    assert shown.exit_code == 0
    for name in JOBS:
        assert name in shown.output
        assert CliRunner().invoke(cli, ["pipeline", name, "--help"]).exit_code == 0, name


def test_a_mistyped_job_names_the_nearest() -> None:
    said = CliRunner().invoke(cli, ["pipeline", "archiv"])
    assert said.exit_code == 2
    assert "did you mean 'archive'?" in said.output
