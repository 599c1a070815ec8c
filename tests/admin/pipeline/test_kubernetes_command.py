"""`epochmq pipeline kubernetes`: what it writes and prints, and what is refused."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from epochmq.admin.cli import cli

KUBERNETES = ["pipeline", "kubernetes"]


def test_the_next_command_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, [*KUBERNETES, "job", "--image", "i:1", "--secret", "tls"])
    assert result.exit_code == 0, result.output
    assert {file.name for file in (tmp_path / "job").iterdir()} == {
        "driver.yaml", "executor.yaml", "spark.conf"
    }  # fmt: skip
    assert f"--properties-file {tmp_path / 'job' / 'spark.conf'}" in result.stdout
    assert "files of secret tls in /etc/epochmq" in result.stdout


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["job"], "Missing option '--image'"),
        (["job", "--image", "i:1", "--namespace", "A"], "is not a name of a Kubernetes namespace"),
        (["file", "--image", "i:1"], "Directory 'file' is a file"),
        (["file/job", "--image", "i:1"], "cannot write file/job: Not a directory"),
    ],
)
def test_errors_say_what_to_do(
    args: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    result = CliRunner().invoke(cli, [*KUBERNETES, *args])
    assert result.exit_code in (1, 2)
    assert says in result.stderr
    assert not Path("job").exists()
