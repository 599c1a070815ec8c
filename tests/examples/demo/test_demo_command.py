"""`epochmq demo` in a checkout, as a user runs it; with Spark in tests/spark/jvm/test_demo.py."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.admin.shell import shell_in

from epochmq.admin.local.local_cluster import LocalCluster


@pytest.mark.timeout(240)
def test_three_thousand_flights_twice_in_one_place(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        for args in (("-o", "json"), ()):
            given = ("--messages", "3000", "--rate", "3000", "--no-spark", *args)
            code, out, said = shell.run("demo", *given, timeout=110)
            assert code == 0, said
            assert "member-2 killed (SIGKILL)" in said
            assert "member-2 is back" in said
            assert said.count("is back in the set, a follower now") == 2
            report = json.loads((tmp_path / ".epochmq-demo" / "report.json").read_text())
            assert (report["sent"], report["received"], report["verdict"]) == (3000, 3000, "passed")
            assert json.loads(out) == report if args else "PASSED" in out
            assert report["replicas_identical_bytes"] > 0
            first, second = report["failovers"]
            assert first["new_master"] == second["killed"]
            for failover in (first, second):
                assert failover["new_epoch"] > failover["old_epoch"]
                assert None not in failover.values()
        left = sorted(path.name for path in (tmp_path / ".epochmq-demo").iterdir())
        assert left == ["flights.png", "logs", "report.json"]


@pytest.mark.parametrize("line", ["", "name server at", "flights as fast as they go"])
def test_sigterm_leaves_no_process_behind(tmp_path: Path, line: str) -> None:
    """As `timeout` and service managers end it; the processes of the cluster are not its own."""
    directory = tmp_path / "demo"
    args = ["--no-spark", "--messages", "200000", "--dir", str(directory)]
    running = subprocess.Popen(
        [sys.executable, "-m", "epochmq", "demo", *args], stderr=subprocess.PIPE, text=True
    )
    assert running.stderr is not None
    try:
        if line:
            said = ""
            while line not in said:
                said = running.stderr.readline()
                assert said, "the demo ended by itself"
        else:  # while the servers are started
            while not any(directory.glob("*.pid")):
                assert running.poll() is None
                time.sleep(0.01)
        running.send_signal(signal.SIGTERM)
        _, said = running.communicate(timeout=30)
    finally:
        running.kill()
    assert running.returncode == 130
    assert "Traceback" not in said
    left = [part.pid for part in LocalCluster(directory).servers() if part.pid is not None]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left
