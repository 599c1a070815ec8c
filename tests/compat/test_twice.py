"""The second try of third-party clients, in a pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
CONFTEST = """
import sys
sys.path.insert(0, {project!r})
from tests.compat.twice import pytest_runtest_protocol, report_flaky
pytest_terminal_summary = report_flaky
"""
TESTS = """
import pytest
from tests.compat.drivers.driver import ScenarioError

tries, made = [], []

@pytest.fixture
def fresh():
    made.append(1)
    yield [len(made)]

@pytest.mark.tried_twice
class TestClient:
    def test_late_once(self, fresh):
        tries.append(fresh)
        if len(tries) == 1:
            raise ScenarioError("too late")
        assert fresh == [2]

    def test_wrong(self):
        tries.append("wrong")
        assert tries.count("wrong") == 2

    def test_always_late(self):
        tries.append("late")
        raise TimeoutError(f"try {tries.count('late')}")

    @pytest.mark.tried_twice(False)
    def test_of_loss(self):
        tries.append("lost")
        raise TimeoutError(f"loss {tries.count('lost')}")

def test_of_ours():
    tries.append("ours")
    raise TimeoutError(f"ours {tries.count('ours')}")
"""


def test_only_a_third_party_that_failed_by_itself_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.format(project=str(PROJECT)))
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = tried_twice\n")
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "."]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "4 failed, 1 passed" in ran.stdout
    assert "FLAKY test_it.py::TestClient::test_late_once - ScenarioError: too late" in ran.stdout
    assert ran.stdout.count("FLAKY test_it") == 1
    for end in ("test_always_late - TimeoutError: try 2", "test_of_loss - TimeoutError: loss 1"):
        assert f"FAILED test_it.py::TestClient::{end}" in ran.stdout
    assert "FAILED test_it.py::test_of_ours - TimeoutError: ours 1" in ran.stdout
