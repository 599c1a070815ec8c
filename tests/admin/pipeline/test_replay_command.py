"""`epochmq pipeline replay`: what is refused before Spark is started."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.admin.world import Ran

from epochmq.admin.cli import cli


def run(*args: str) -> Ran:
    result = CliRunner().invoke(cli, ["pipeline", "replay", *args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result
    return Ran(result.exit_code, result.stdout, result.stderr)


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        ((), 2, "Missing argument 'TABLE'"),
        (("/lake", "a b"), 2, "forbidden character"),
        (("/lake", "t", "--offsets", "x"), 2, "is not a range: write broker-a:0=100..200"),
        (("/lake", "t", "--since", "5", "--until", "4"), 2, "not behind"),
        (("/lake", "t", "--rate", "-1"), 2, "Invalid value for '--rate'"),
        (("/lake", "t", "--since", "noon"), 2, "neither ms since 1970 nor a time"),
        (("/lake", "t", "--conf", "x"), 2, "is not a setting of Spark"),
        (("/lake", "t", "--master", "here"), 2, "is not a master of Spark"),
    ],
)
def test_bad_arguments(
    args: tuple[str, ...], code: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = run(*args)
    assert found.code == code, found
    assert says in found.err
    assert not list(tmp_path.iterdir())
