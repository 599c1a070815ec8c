"""The same plan is the same history: in two interpreters, and twice in one process (INV-90)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sim.kernel.plan import Plan
from sim.tools.worlds import MODULES, run
from tests.tiers import choose

ROOT = Path(__file__).resolve().parents[2]
WORLDS = sorted(MODULES)


@pytest.mark.soak
@pytest.mark.parametrize("world", WORLDS)
def test_a_seed_twice_in_one_process(world: str) -> None:
    for seed in range(6):
        first, second = run(Plan(world, seed)), run(Plan(world, seed))
        assert (first.digest, first.marks) == (second.digest, second.marks)
        assert first.events > 20


def test_two_interpreters_with_other_hashes_agree() -> None:
    count = choose(sample=1, soak=12)
    code = (
        "from sim.kernel.plan import Plan; from sim.tools.worlds import run\n"
        f"for world in {WORLDS!r}:\n"
        f"    for seed in range({count}): print(world, seed, run(Plan(world, seed)).digest)\n"
        "told = [('group', 'S05'), *(('acting', name) for name in ('S31', 'S32', 'S33'))]\n"
        "for world, story in told: print(run(Plan(world, 5, (), None, story)).digest)"
    )
    outputs = []
    for hash_seed in ("1", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}:src"}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout.splitlines())
    assert outputs[0] == outputs[1]
    assert len(set(outputs[0])) == count * len(WORLDS) + 4
