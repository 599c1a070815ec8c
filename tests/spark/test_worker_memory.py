"""Freed blocks of a worker are used again, and are not given back to the system each time."""

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")

PROGRAM = """
import resource
from epochmq.spark.worker_memory import keep_freed_memory

def faults() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(200):
        blocks = [bytes(512 * 1024) + b"x" for _ in range(4)]
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
without = faults()
done = keep_freed_memory()
faults()
print(done, without, faults())
"""


def run(**more: str) -> list[str]:
    settings = {name: value for name, value in os.environ.items() if "MALLOC" not in name}
    settings.pop("GLIBC_TUNABLES", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**settings, **more},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_blocks_are_used_again() -> None:
    done, without, kept = run()
    assert done == "True"
    assert int(without) > 200, "each page of each block is a fault"
    assert int(kept) < int(without) / 10


@pytest.mark.parametrize(
    "more", [{"MALLOC_TRIM_THRESHOLD_": "1"}, {"GLIBC_TUNABLES": "glibc.malloc.check=0"}]
)
def test_settings_of_the_user_are_kept(more: dict[str, str]) -> None:
    assert run(**more)[0] == "False"
