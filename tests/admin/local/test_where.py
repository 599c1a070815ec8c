"""Which name server is talked to."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from epochmq.admin.cli import cli
from epochmq.admin.local import where
from epochmq.admin.local.processes import remember
from epochmq.base.errors import NotReachable


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


def test_the_cluster_of_this_directory_does_not_run(elsewhere: Path) -> None:
    """Killed, or stopped, when only its configuration is there: nobody else is asked instead."""
    announce(elsewhere, '{"namesrv": "127.0.0.1:9886"}')
    directory = elsewhere / ".epochmq"
    (directory / "namesrv.pid").write_text('{"pid": 1, "started": "never"}')
    with pytest.raises(NotReachable, match=r"127.0.0.1:9886.*does not run.*epochmq dev"):
        where.default_namesrv()
    (directory / "cluster.json").unlink()
    (directory / "namesrv.properties").write_text("listenPort=9896\n")
    ran = CliRunner().invoke(cli, ["topic", "delete", "orders", "-y"])
    assert (ran.exit_code, "127.0.0.1:9896" in ran.stderr) == (3, True)
    ran = CliRunner().invoke(cli, ["topic", "list", "-n", "127.0.0.1:1"])
    assert "127.0.0.1:1" in ran.stderr
    assert CliRunner().invoke(cli, ["topic", "list", "--help"]).exit_code == 0


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"namesrv": 5}'])
def test_a_broken_file_is_no_hindrance(elsewhere: Path, text: str) -> None:
    announce(elsewhere, text)
    assert where.default_namesrv() == "127.0.0.1:9876"


def test_the_environment_wins(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    announce(elsewhere, '{"namesrv": "127.0.0.1:9886"}')
    monkeypatch.setenv(where.ENVIRONMENT, "mq:9876")
    assert where.default_namesrv() == "mq:9876"
