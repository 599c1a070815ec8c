"""`epochmq pipeline repair` from a copy; rows from a topic are in `test_verify_command.py`."""

import json
import shutil
from pathlib import Path

from click.testing import CliRunner
from tests.spark.jobs.damage import archived

from epochmq.admin.cli import cli


def run(*arguments: str) -> tuple[int, str]:
    ended = CliRunner().invoke(cli, ["pipeline", *arguments])
    return ended.exit_code, ended.output


def test_nothing_to_restore_from(tmp_path: Path) -> None:
    code, said = run("repair", str(tmp_path / "none"))
    assert (code, "name a copy of the table by --from" in said) == (2, True), said


def test_a_copy_restores_a_table(tmp_path: Path) -> None:
    place, copy = tmp_path / "table", tmp_path / "copy"
    archived(place, "parquet")
    shutil.copytree(place, copy)
    file = next(place.rglob("*.parquet"))
    file.write_bytes(b"")
    code, said = run("repair", str(place), "--from", str(copy), "-o", "json")
    assert code == 0, said
    assert json.loads(said)["fromCopy"] == [str(file.relative_to(place))]
    assert run("verify", str(place))[0] == 0
    file.unlink()
    shutil.rmtree(copy)
    copy.mkdir()
    code, said = run("repair", str(place), "--from", str(copy))
    assert code == 4, said
