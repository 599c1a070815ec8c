"""Random histories of one world: seeds in chunks, a test for each; a failure prints its replay."""

from collections import Counter

from sim.kernel.plan import Plan
from sim.tools.report import report
from sim.tools.seeds import chunks, history_seeds
from sim.tools.worlds import run
from tests.tiers import FIRST_SEED, choose

CHUNK = 25


def seed_chunks(
    world: str, *, sample: int, soak: int, part: int = 0, parts: int = 1
) -> list[list[int]]:
    """Return the seeds of one of `parts` test files: those that failed once, then fresh ones.

    `sample` and `soak` are numbers of fresh seeds, see `tests/tiers.py`.
    """
    seeds = history_seeds(world, choose(sample, soak), FIRST_SEED)
    return chunks(seeds, CHUNK)[part::parts]


def play_all(world: str, seeds: list[int]) -> Counter[str]:
    """Play the seeds; the first violation fails the test and prints the whole report."""
    marks: Counter[str] = Counter()
    for seed in seeds:
        outcome = run(Plan(world, seed))
        assert outcome.violation is None, "\n" + report(outcome)
        marks.update(outcome.marks)
    marks["histories"] = len(seeds)
    return marks


def name(seeds: list[int]) -> str:
    return f"from-{seeds[0]}"
