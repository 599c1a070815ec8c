"""`epochmq pipeline compact`: what is refused before Spark is started."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.admin.world import Ran

from epochmq.admin.cli import cli


def run(*args: str) -> Ran:
    result = CliRunner().invoke(cli, ["pipeline", "compact", *args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result
    return Ran(result.exit_code, result.stdout, result.stderr)


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("t",), 2, "Missing argument 'DIRECTORY'"),
        (("a b", "out"), 2, "forbidden character"),
        (("t", "out", "--key", "colour"), 2, "is not a key"),
        (("t", "out", "--format", "csv"), 2, "Invalid value for '--format'"),
        (("t", "out", "--master", "here"), 2, "is not a master of Spark"),
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
