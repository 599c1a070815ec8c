"""Which name server is talked to."""

import os
from pathlib import Path

import pytest

from epochmq.admin import where
from epochmq.admin.local.processes import remember


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(where.ENVIRONMENT, raising=False)
    return tmp_path


def announce(directory: Path, text: str) -> None:
    (directory / ".epochmq").mkdir()
    (directory / ".epochmq" / "cluster.json").write_text(text)
    remember(directory / ".epochmq" / "namesrv.pid", os.getpid())


def test_the_usual_port() -> None:
    assert where.default_namesrv() == "127.0.0.1:9876"


def test_the_cluster_of_this_directory(elsewhere: Path) -> None:
    announce(elsewhere, '{"namesrv": "127.0.0.1:9886"}')
    assert where.default_namesrv() == "127.0.0.1:9886"
    (elsewhere / ".epochmq" / "namesrv.pid").write_text('{"pid": 1, "started": "never"}')
    assert where.default_namesrv() == "127.0.0.1:9876"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"namesrv": 5}'])
def test_a_broken_file_is_no_hindrance(elsewhere: Path, text: str) -> None:
    announce(elsewhere, text)
    assert where.default_namesrv() == "127.0.0.1:9876"


def test_the_environment_wins(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    announce(elsewhere, '{"namesrv": "127.0.0.1:9886"}')
    monkeypatch.setenv(where.ENVIRONMENT, "mq:9876")
    assert where.default_namesrv() == "mq:9876"
