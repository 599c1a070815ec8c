"""Where a dashboard keeps its files."""

from pathlib import Path

import pytest

from epochmq.admin.dashboard.dashboard_command import _default_directory


def test_files_are_beside_the_cluster_of_this_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that is removed takes its ledgers with it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert _default_directory("127.0.0.1:9876") == Path("/state/epochmq/dashboard")
    (tmp_path / ".epochmq").mkdir()
    assert _default_directory("127.0.0.1:9876") == Path(".epochmq/dashboard")
    assert _default_directory(None) == Path("/state/epochmq/dashboard")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _default_directory(None) == tmp_path / ".local/state/epochmq/dashboard"


def test_another_cluster_has_its_files_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".epochmq").mkdir()
    monkeypatch.setenv("NAMESRV_ADDR", "10.0.0.1:9876")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert _default_directory("10.0.0.1:9876") == Path("/state/epochmq/dashboard")
