"""A file system of its own, in memory, that is small or apart from the others."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(path: Path, mib: int) -> Iterator[Path]:
    """Mount a file system of `mib` MiB at `path`; skips the test where that is not allowed."""
    if os.geteuid() != 0:
        pytest.skip("a file system can only be mounted by root")
    path.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", path]
    made = subprocess.run(command, capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {made.stderr.decode().strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=False)
