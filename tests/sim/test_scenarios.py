"""Every story under several noisy seeds: no rule breaks, and the story happens."""

from collections import Counter

import pytest
from sim.kernel.plan import Plan
from sim.scenarios.index import listing, names
from sim.tools.report import report
from sim.tools.worlds import run
from tests.tiers import choose

SEEDS = choose(sample=2, soak=20)
FEWER = {
    "S12": 8,
    "S13": 8,
    "S14": 6,
    "S31": 6,
    "S32": 6,
    "S33": 6,
    "S34": 6,
    "S39": 6,
    "S51": 8,
}
"""Longer histories than the others."""
STORIES = tuple(names())


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    marks: Counter[str] = Counter()
    seeds = min(FEWER.get(story, SEEDS), SEEDS)
    for seed in range(seeds):
        outcome = run(Plan("group", seed, (), None, story))
        assert outcome.violation is None, "\n" + report(outcome)
        marks.update(outcome.marks)
    assert marks[f"covered.{story}"] >= seeds // 2


def test_all_stories_are_there() -> None:
    wanted = {*(f"S{n:02d}" for n in range(1, 15)), "S16", "S17", "S18"}
    assert wanted <= set(STORIES)
    assert all(len(line) > 20 for line in listing())


@pytest.mark.parametrize("story", ["S23", "S29"])
def test_controllers_that_follow_wiped_ones_are_judged_too(story: str) -> None:
    """Each of the two Raft groups elects a leader before the eyes of INV-01."""
    outcome = run(Plan("group", 0, (), None, story))
    assert outcome.marks["covered.elected"] >= 2
