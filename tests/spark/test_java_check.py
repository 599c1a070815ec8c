"""A missing Java is one line that tells what to install."""

from pathlib import Path

import pytest

from epochmq.base.errors import EnvironmentFault
from epochmq.spark.java_check import check_java


def test_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="which has no bin/java"):
        check_java()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch(0o755)
    check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="install Java 17"):
        check_java()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    check_java()
