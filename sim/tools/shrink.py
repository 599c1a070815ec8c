"""Shrinks a failing history: removes faults while it still violates the same rule."""

from collections.abc import Callable
from dataclasses import replace

from sim.kernel.plan import Outcome, Plan


def shrink(failed: Outcome, run: Callable[[Plan], Outcome], tries_max: int = 200) -> Outcome:
    """Return the failing history with the fewest faults that greedy removal finds."""
    assert failed.violation is not None
    rule = failed.violation.rule
    kept = [int(line.split(":", 1)[0]) for line in failed.faults]
    best, tries = failed, 0
    size = max(1, len(kept) // 2)
    while kept and tries < tries_max:
        dropped = False
        for at in range(0, len(kept), size):
            fewer = kept[:at] + kept[at + size :]
            tries += 1
            found = run(replace(failed.plan, keep=tuple(fewer)))
            if found.violation is not None and found.violation.rule == rule:
                kept, best, dropped = fewer, found, True
                break
            if tries >= tries_max:
                break
        if not dropped:
            if size == 1:
                break
            size //= 2
    return best
