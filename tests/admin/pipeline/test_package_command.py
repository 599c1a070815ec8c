"""`epochmq pipeline package`: the file that it writes, and what is refused."""

import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from epochmq.admin.cli import cli


def test_the_file_is_named_for_the_version_and_the_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["pipeline", "package"])
    assert result.exit_code == 0, result.output
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("epochmq-")
    assert zipfile.is_zipfile(file)
    assert f"spark-submit --py-files {file.name} APP.py" in result.stdout


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["epochmq.whl"], "name it .zip"),
        (["a.zip", "--with", "no-such-thing"], "no-such-thing is not installed here"),
        (["missing/a.zip"], "cannot write missing/a.zip: No such file or directory"),
    ],
)
def test_errors_say_what_to_do(
    args: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["pipeline", "package", *args])
    assert result.exit_code in (1, 2)
    assert says in result.stderr
    assert not list(tmp_path.iterdir())
