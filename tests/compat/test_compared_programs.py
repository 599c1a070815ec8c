"""The Java program that the documentation compares with ours does on our broker what ours does."""

import os
import subprocess
from pathlib import Path

import pytest

from epochmq.testing import MiniCluster

from .drivers.build import java_program
from .peers.cache import UnavailableError

pytestmark = pytest.mark.compat
SOURCE = Path(__file__).parents[2] / "examples" / "coming_from" / "JavaProgram.java"


def test_the_java_program_of_the_documentation() -> None:
    try:
        argv = java_program(SOURCE)
    except UnavailableError as error:
        pytest.skip(f"the Java client cannot be had: {error}")
    with MiniCluster() as cluster:
        done = subprocess.run(
            argv,
            env={**os.environ, "NAMESRV_ADDR": cluster.namesrv},
            capture_output=True,
            text=True,
            timeout=100,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["SEND_OK", "billed order 1"]
