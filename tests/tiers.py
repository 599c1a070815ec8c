"""How much of the tests a run plays: `make test`, `make landing` or `make soak`.

`make test` has 15 minutes on 2 cores. It leaves out the tests of `landing_tests.txt`, which take
long. `make landing`, which CI runs, plays them as well, every history that failed once, and a
sample of the others. `make soak` takes hours: it plays all of them, with seeds that nobody played
before.

EPOCHMQ_TESTS   `quick`, `landing` (the default of pytest, so that a file is played whole) or `soak`
EPOCHMQ_SEED    the first seed of the histories that are not kept; 0 by default, printed by pytest
"""

import os
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

LEVELS = ("quick", "landing", "soak")
LEVEL = os.environ.get("EPOCHMQ_TESTS", "landing")
if LEVEL not in LEVELS:
    raise ValueError(f"EPOCHMQ_TESTS={LEVEL!r}: use one of {', '.join(LEVELS)}")
QUICK, SOAK = LEVEL == "quick", LEVEL == "soak"
FIRST_SEED = int(os.environ.get("EPOCHMQ_SEED", "0"))


class LandingTests:
    """The tests of `landing_tests.txt`, which `make test` leaves out."""

    def __init__(self, text: str) -> None:
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        listed = [line.split(maxsplit=1)[1] for line in lines]
        self.beginnings: tuple[str, ...] = tuple(part for part in listed if part[0] != "*")
        self.parts: tuple[str, ...] = tuple(part[1:] for part in listed if part[0] == "*")

    @classmethod
    def read(cls) -> "LandingTests":
        """Return the tests that the file names."""
        return cls(Path(__file__).with_name("landing_tests.txt").read_text(encoding="utf-8"))

    def __contains__(self, test_id: str) -> bool:
        return test_id.startswith(self.beginnings) or any(part in test_id for part in self.parts)


def choose(sample: T, soak: T) -> T:
    """Return `sample`, or `soak` in `make soak`: how often this run does something, or in which
    variants."""
    return soak if SOAK else sample


def examples(sample: int) -> int:
    """Return how many examples a property tries: `sample`, or at least 2,000 in `make soak`."""
    return choose(sample, max(sample, 2_000))
