"""How much of the tests a run plays: a sample in `make test`, everything in `make soak`.

`make test` has 15 minutes on 2 cores. It plays every history that failed once, and a sample of the
others. `make soak` takes hours: it plays all of them, with seeds that nobody played before.

EPOCHMQ_TESTS   `sample` (the default) or `soak`
EPOCHMQ_SEED    the first seed of the histories that are not kept; 0 by default, printed by pytest
"""

import os
from typing import TypeVar

T = TypeVar("T")

SOAK = os.environ.get("EPOCHMQ_TESTS", "sample") == "soak"
FIRST_SEED = int(os.environ.get("EPOCHMQ_SEED", "0"))


def choose(sample: T, soak: T) -> T:
    """Return `sample`, or `soak` in `make soak`: how often this run does something, or in which
    variants."""
    return soak if SOAK else sample


def examples(sample: int) -> int:
    """Return how many examples a property tries: `sample`, or at least 2,000 in `make soak`."""
    return choose(sample, max(sample, 2_000))
