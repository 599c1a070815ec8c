"""Times and durations on the command line."""

import click
import pytest
from click.testing import CliRunner

from epochmq.admin.pipeline.values import Duration, Moment


@click.command()
@click.option("--at", type=Moment(), default=0)
@click.option("--within", type=Duration(), default="30s")
def command(at: int, within: int) -> None:
    click.echo(f"{at} {within}")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "0 30000"),
        (["--at", "1700000000000", "--within", "500"], "1700000000000 500"),
        (["--at", "2023-11-14T22:13:20Z", "--within", "15m"], "1700000000000 900000"),
    ],
)
def test_forms(args: list[str], says: str) -> None:
    assert CliRunner().invoke(command, args).output == f"{says}\n"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--at", "yesterday"], "neither ms since 1970 nor a time"),
        (["--at", "2023-11-14T22:13:20"], "it has no zone"),
        (["--within", "long"], "it is not a duration"),
    ],
)
def test_mistakes(args: list[str], says: str) -> None:
    result = CliRunner().invoke(command, args)
    assert result.exit_code == 2
    assert says in result.output
