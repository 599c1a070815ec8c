"""Plays many histories, limited by number or time, on one or several processes, with a summary."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from multiprocessing import get_context

from sim.acting.acting_again import EXPLAINED_MARK, PUTS_MARK
from sim.kernel.plan import Outcome, Plan
from sim.tools.worlds import run


@dataclass
class Summary:
    """The result of a campaign."""

    histories: int = 0
    events: int = 0
    simulated_ms: int = 0
    seconds: float = 0.0
    marks: Counter[str] = field(default_factory=Counter)
    failures: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.histories += 1
        self.events += outcome.events
        self.simulated_ms += outcome.simulated_ms
        self.marks.update(outcome.marks)
        if outcome.violation is not None:
            self.failures.append(outcome)

    def line(self) -> str:
        rate = self.histories / self.seconds if self.seconds else 0.0
        return (
            f"{self.histories} histories, {self.events} events,"
            f" {self.simulated_ms / 1000:.0f} simulated s in {self.seconds:.1f} s"
            f" ({rate:.1f} a second), {len(self.failures)} violations"
        )

    def explained(self) -> str:
        """How much of the time a repeat would be explained, where the world's checkers say so."""
        puts = self.marks[PUTS_MARK]
        if not puts:
            return ""
        share = 100 * self.marks[EXPLAINED_MARK] / puts
        return f"a repeat of what was held 1 s before would be explained in {share:.0f} % of {puts}"


def outcomes(plans: Iterable[Plan], jobs: int) -> Iterator[Outcome]:
    """Outcomes in the order of the plans."""
    if jobs <= 1:
        yield from map(run, plans)
        return
    with get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(run, plans, chunksize=4)


def campaign(
    plans: Iterable[Plan], jobs: int = 1, seconds_max: float | None = None, failures_max: int = 10
) -> Summary:
    """Play plans until they end, time is up, or `failures_max` of them failed."""
    summary = Summary()
    begin = time.monotonic()
    for outcome in outcomes(plans, jobs):
        summary.add(outcome)
        summary.seconds = time.monotonic() - begin
        if seconds_max is not None and summary.seconds > seconds_max:
            break
        if len(summary.failures) >= failures_max:
            break
    return summary


def plans(
    world: str, first: int, number: int | None, off: tuple[str, ...] = (), scenario: str = ""
) -> Iterator[Plan]:
    """Return plans for the seeds from `first` on; without `number` they do not end."""
    seeds = count(first) if number is None else islice(count(first), number)
    return (Plan(world, seed, off, None, scenario) for seed in seeds)
