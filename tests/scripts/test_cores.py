"""The tests of each module in `CORES` cover all of its lines and branches.

One run of pytest plays the test files of all these modules and records which test reached which
line. `make test` plays the same files without the record, so this check is part of `make soak`.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from coverage import Coverage

from tidy_tables import CORES

PROJECT = Path(__file__).resolve().parents[2]
PACKAGE = PROJECT / "src" / "epochmq"


def module_of(core: str) -> str:
    return "epochmq." + core.removesuffix(".py").replace("/", ".")


def own_tests(core: str) -> list[Path]:
    """The test files of the mirrored folder that import the core: one for each of its subjects."""
    folder = Path("tests") / Path(core).parent
    imports = f"from {module_of(core)} import "
    found = sorted((PROJECT / folder).glob("test_*.py"))
    return [folder / path.name for path in found if f"\n{imports}" in path.read_text()]


@pytest.fixture(scope="module")
def measured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """(what the tests of the chosen cores have reached, what pytest said of them)."""
    here = [item for item in request.session.items if item.path == request.path]
    chosen = [item.callspec.params["core"] for item in here if hasattr(item, "callspec")]
    folder = tmp_path_factory.mktemp("cores")
    data = folder / "data"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=600"]
    command += ["--cov-branch", "--cov-context=test", "--cov-report="]
    for core in chosen:
        command += [f"--cov={module_of(core)}", *map(str, own_tests(core))]
    environ = {key: text for key, text in os.environ.items() if not key.startswith("COV_CORE")}
    environ |= {"COVERAGE_FILE": str(data), "EPOCHMQ_PROPERTIES": "dev"}
    done = subprocess.run(command, cwd=PROJECT, env=environ, capture_output=True, text=True)
    return data, done.stdout[-2000:] if done.returncode else ""


def test_there_are_cores() -> None:
    assert "raft/raft_core.py" in CORES


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("core", CORES)
def test_its_own_tests_cover_it(core: str, measured: tuple[Path, str], tmp_path: Path) -> None:
    own = own_tests(core)
    assert own, f"{core} has no tests of its own"
    data, failures = measured
    assert not failures, failures
    report = tmp_path / "report.json"
    coverage = Coverage(str(data), config_file=str(PROJECT / "pyproject.toml"))
    coverage.load()
    # What runs when a module is imported belongs to no test.
    contexts = ["^$", *(f"^{re.escape(path.as_posix())}::" for path in own)]
    coverage.json_report([str(PACKAGE / core)], outfile=str(report), contexts=contexts)
    (found,) = json.loads(report.read_text())["files"].values()
    missing = found["missing_lines"], found["missing_branches"]
    assert missing == ([], []), f"{core}: lines and branches that its own tests do not reach"
