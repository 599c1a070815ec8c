"""Every core is covered whole, branches too, by its own test file: nothing in it is untried."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PACKAGE = PROJECT / "src" / "epochmq"
CORES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("core.py"))


def test_there_are_cores() -> None:
    assert "raft/core.py" in CORES


@pytest.mark.parametrize("core", CORES)
def test_its_own_tests_cover_it(core: str, tmp_path: Path) -> None:
    own = PROJECT / "tests" / Path(core).parent / "test_core.py"
    assert own.is_file(), f"{core} has no tests of its own"
    report = tmp_path / "report.json"
    module = "epochmq." + core.removesuffix(".py").replace("/", ".")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [f"--cov={module}", "--cov-branch", f"--cov-report=json:{report}", str(own)]
    environ = {key: text for key, text in os.environ.items() if not key.startswith("COV_CORE")}
    environ |= {"COVERAGE_FILE": str(tmp_path / "data"), "EPOCHMQ_PROPERTIES": "dev"}
    done = subprocess.run(command, cwd=PROJECT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    (found,) = json.loads(report.read_text())["files"].values()
    missing = found["missing_lines"], found["missing_branches"]
    assert missing == ([], []), f"{core}: lines and branches that its own tests do not reach"
