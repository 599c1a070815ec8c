"""Staying with a cluster: what is shown, and every way in which it ends."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from epochmq.admin.local import foreground
from epochmq.admin.local.config_files import choose_anywhere
from epochmq.admin.local.local_cluster import LocalCluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    made = LocalCluster(tmp_path / "cluster")
    made.start(choose_anywhere())
    yield made
    made.stop()


def test_one_screen(cluster: LocalCluster) -> None:
    console = Console(file=StringIO(), width=100)
    console.print(foreground.screen(cluster))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for text in (cluster.namesrv, cluster.broker, "MiB", "epochmq produce", "Ctrl-C"):
        assert text in shown


def test_a_stop_signal_stops_both(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    assert foreground.watch(cluster) == 0
    timer.join()
    assert [part.pid for part in cluster.parts()] == [None, None]
    captured = capsys.readouterr()
    assert cluster.namesrv in captured.out
    assert "stopped namesrv and broker" in captured.err


def test_a_server_that_dies_ends_it(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = cluster.parts()[1].pid
    assert broker is not None
    os.kill(broker, signal.SIGKILL)
    assert foreground.watch(cluster) == 1
    assert "the broker ended" in capsys.readouterr().err


async def test_a_stop_from_elsewhere_is_no_failure(cluster: LocalCluster) -> None:
    watching = asyncio.create_task(foreground._watch(cluster))
    await asyncio.to_thread(cluster.stop)
    assert await asyncio.wait_for(watching, 20) == 0
