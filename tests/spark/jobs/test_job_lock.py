"""One job at a time for one checkpoint."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from epochmq.base.errors import UsageError
from epochmq.spark.jobs.job_report import CheckpointInUse, CheckpointLock

HOLDER = """
import sys
from pathlib import Path
from epochmq.spark.jobs.job_report import CheckpointLock
with CheckpointLock(Path(sys.argv[1]), "archive"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_another_process_is_named_and_its_death_frees_the_lock(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(CheckpointInUse, match=f"job archive, process {holder.pid} on"):
            CheckpointLock(tmp_path, "archive").__enter__()
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    with CheckpointLock(tmp_path, "replay"):
        pass


def test_odd_files(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("not json")
    with CheckpointLock(tmp_path, "a"):
        (tmp_path / "lock").write_text("{}")
        with pytest.raises(CheckpointInUse, match="by another job"):
            CheckpointLock(tmp_path, "b").__enter__()
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be used"):
        CheckpointLock(tmp_path / "file", "a").__enter__()
