"""`epochmq pipeline backfill`: what is refused before Spark is started."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.admin.world import Ran

from epochmq.admin.cli import cli


def run(*args: str) -> Ran:
    result = CliRunner().invoke(cli, ["pipeline", "backfill", *args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result
    return Ran(result.exit_code, result.stdout, result.stderr)


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        ((), 2, "Missing argument 'TABLE'"),
        (("/lake", "--to", "/"), 2, "is there already"),
        (("/lake", "--limit", "0"), 2, "Invalid value for '--limit'"),
        (("/lake", "--master", "here"), 2, "is not a master of Spark"),
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
