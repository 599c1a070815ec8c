"""What every landing plays: seeds in chunks, a test each; a failure prints its replay command."""

from collections import Counter

from sim.plan import Plan
from sim.report import report
from sim.seeds import chunks, landing_seeds
from sim.worlds import run

CHUNK = 50


def parts(world: str, count: int, part: int = 0, of: int = 1) -> list[list[int]]:
    """The seeds of one of `of` test files."""
    return chunks(landing_seeds(world, count), CHUNK)[part::of]


def play_all(world: str, seeds: list[int]) -> Counter[str]:
    """Play the seeds; the first violation fails the test with all there is to say."""
    marks: Counter[str] = Counter()
    for seed in seeds:
        outcome = run(Plan(world, seed))
        assert outcome.violation is None, "\n" + report(outcome)
        marks.update(outcome.marks)
    marks["histories"] = len(seeds)
    return marks


def name(seeds: list[int]) -> str:
    return f"from-{seeds[0]}"
