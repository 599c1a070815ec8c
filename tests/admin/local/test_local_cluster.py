"""A cluster in a directory: started once, found again, stopped."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from epochmq.admin.local import config_files, processes
from epochmq.admin.local.config_files import choose_anywhere
from epochmq.admin.local.local_cluster import LocalCluster
from epochmq.base.errors import EnvironmentFault
from epochmq.runtime.listen import listen


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    made = LocalCluster(tmp_path / "cluster")
    yield made
    made.stop()


def pids(cluster: LocalCluster) -> list[int | None]:
    return [part.pid for part in cluster.parts()]


def test_started_found_mended_and_stopped(cluster: LocalCluster) -> None:
    assert cluster.stop() == []
    ports = choose_anywhere()
    first = cluster.start(ports)
    assert (first.was_running, cluster.ports) == (False, ports)
    announced = json.loads((cluster.directory / "cluster.json").read_text())
    assert announced == {"namesrv": cluster.namesrv, "broker": cluster.broker}
    before = pids(cluster)
    assert cluster.start().was_running
    assert pids(cluster) == before
    assert before[1] is not None
    os.kill(before[1], signal.SIGKILL)
    processes.wait_gone(before[1], 10)
    assert pids(cluster) == [before[0], None]
    assert not cluster.is_given_up
    assert not cluster.start().was_running
    assert pids(cluster)[0] == before[0]
    assert cluster.stop() == ["namesrv", "broker"]
    assert pids(cluster) == [None, None]
    assert cluster.is_given_up
    assert not (cluster.directory / "cluster.json").exists()


def test_a_broker_that_does_not_come_up_says_why(cluster: LocalCluster) -> None:
    cluster.directory.mkdir()
    (cluster.directory / "broker.properties").write_text("brokerNmae=x\nlistenPort=1911\n")
    with pytest.raises(EnvironmentFault, match="unknown option 'brokerNmae'"):
        cluster.start()
    assert pids(cluster) == [None, None]


def test_a_dashboard_whose_port_was_just_taken_has_not_started(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.start(choose_anywhere())
    with listen("127.0.0.1", 0) as other:
        port = other.getsockname()[1]
        config_files.write_dashboard(cluster.directory)
        file = cluster.directory / "dashboard.properties"
        text = file.read_text()
        lines = [f"listenPort={port}" if "listenPort" in x else x for x in text.splitlines()]
        file.write_text("\n".join(lines))
        monkeypatch.setattr(config_files, "move_dashboard", lambda directory: None)
        fault = cluster.start(dashboard=True).dashboard_fault
    assert fault is not None
    assert f"cannot listen on 127.0.0.1:{port}" in fault


def test_a_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFault, match=r"cannot use .*file"):
        LocalCluster(tmp_path / "file").start()
    assert LocalCluster(tmp_path / "none").last_words("broker") == ""


def test_a_directory_keeps_its_number_of_replicas(cluster: LocalCluster) -> None:
    cluster.start(choose_anywhere())
    cluster.stop()
    with pytest.raises(EnvironmentFault, match="holds a cluster with 1 broker, not 3"):
        cluster.start(choose_anywhere(replicas=3))
