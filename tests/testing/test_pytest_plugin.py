"""The fixtures, in the test suite of another project."""

import subprocess
import sys
from pathlib import Path

import pytest

SUITE = """
import asyncio

from epochmq import Message, Producer


async def send(cluster):
    async with Producer(cluster.namesrv, "P") as producer:
        await producer.send(Message("T", b"x"))


def test_one_broker(epochmq_cluster):
    asyncio.run(send(epochmq_cluster))
    assert [m.body for m in epochmq_cluster.messages("T")] == [b"x"]


def test_another_one(epochmq_cluster):
    assert epochmq_cluster.messages("T") == []


def test_replicas(epochmq_replicas):
    epochmq_replicas.kill("master")
    asyncio.run(send(epochmq_replicas))


def test_shared(epochmq_session_cluster):
    asyncio.run(send(epochmq_session_cluster))


def test_shared_again(epochmq_session_cluster):
    assert len(epochmq_session_cluster.messages("T")) == 1
"""


MODULE = "epochmq.testing.pytest_plugin"
NAMED = ("-p", MODULE)


def run(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("args", [(), NAMED], ids=["installed", "installed and named"])
def test_fixtures(tmp_path: Path, args: tuple[str, ...]) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    done = run(tmp_path, *args)
    assert "5 passed" in done.stdout, done.stdout + done.stderr


def test_the_plugin_can_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    done = run(tmp_path, "-p", f"no:{MODULE}")
    assert "fixture 'epochmq_cluster' not found" in done.stdout, done.stdout + done.stderr


def test_a_suite_named_in_its_conftest_works(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(f"pytest_plugins = [{MODULE!r}]\n")
    (tmp_path / "test_suite.py").write_text(SUITE)
    done = run(tmp_path)
    assert "5 passed" in done.stdout, done.stdout + done.stderr


def test_a_suite_without_the_fixtures_imports_no_server(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(
        "import sys\n\n\ndef test_it():\n"
        "    assert not [name for name in sys.modules if name.startswith('epochmq.broker')]\n"
    )
    done = run(tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
