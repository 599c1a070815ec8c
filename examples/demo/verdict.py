"""Whether the job was done: nothing lost, order kept, repeats explained. Pure; fed with records."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from examples.demo.members import Received

Run = tuple[str, Sequence[Received]]
"""One life of a member: its name, and what it was given in that order."""


@dataclass(slots=True)
class DemoVerdict:
    """`problems` is empty when all is well; a repeat alone is none: delivery is at least once."""

    sent: int
    received: int = 0
    duplicates: int = 0
    duplicates_by_kill: int = 0
    keys: int = 0
    missing: int = 0
    unknown: int = 0
    out_of_order: int = 0
    compared_bytes: int = 0
    """Of each replica's log; all were the same."""
    problems: list[str] = field(default_factory=list)

    def note_replicas(self, compared_bytes: int, problem: str | None) -> None:
        """What comparing the replicas' logs gave."""
        self.compared_bytes = compared_bytes
        if problem is not None:
            self.problems.append(problem)

    @property
    def is_good(self) -> bool:
        return not self.problems


def judge(sent: Mapping[str, int], runs: Sequence[Run], killed: str) -> DemoVerdict:
    """Compare what was sent (flights by carrier, numbered from 0) with what members were given.

    Order counts at first delivery: the first time that flight n of a carrier is given to anybody,
    all before it were given. `killed` is the life that was ended: what it had been given and the
    broker had not yet heard of comes again.
    """
    verdict = DemoVerdict(sent=sum(sent.values()), keys=len(sent))
    first: dict[tuple[str, int], str] = {}
    expected: dict[str, int] = defaultdict(int)
    for name, record in _in_time(runs):
        message = (record.carrier, record.number)
        if record.number >= sent.get(record.carrier, 0):
            verdict.unknown += 1
        elif message in first:
            verdict.duplicates += 1
            verdict.duplicates_by_kill += first[message] == killed
        else:
            first[message] = name
            verdict.out_of_order += record.number != expected[record.carrier]
            expected[record.carrier] = record.number + 1
    verdict.received = len(first)
    verdict.missing = verdict.sent - verdict.received
    verdict.problems = _problems(verdict)
    return verdict


def _in_time(runs: Sequence[Run]) -> list[tuple[str, Received]]:
    """All deliveries by time; of one life in its own order."""
    flat = [
        (record.received_us, life, place, name, record)
        for life, (name, records) in enumerate(runs)
        for place, record in enumerate(records)
    ]
    flat.sort(key=lambda entry: entry[:3])
    return [(name, record) for *_, name, record in flat]


def _problems(verdict: DemoVerdict) -> list[str]:
    counts = {
        "sent and never received": verdict.missing,
        "received and never sent": verdict.unknown,
        "received before an earlier one of their key": verdict.out_of_order,
    }
    return [f"{count:,} messages were {what}" for what, count in counts.items() if count]


# Rate curve -----------------------------------------------------------------------------------
# Acknowledged sends in each quarter of a second: the curve that shows the failovers.


BIN_S = 0.25


class RateCurve:
    """Counts by time; times are monotonic seconds, the curve's own begin at 0."""

    def __init__(self) -> None:
        self._began_s: float | None = None
        self._bins: Counter[int] = Counter()

    def add(self, at_s: float, count: int) -> None:
        """`count` messages were acknowledged at `at_s`."""
        if self._began_s is None:
            self._began_s = at_s
        self._bins[max(0, int((at_s - self._began_s) / BIN_S))] += count

    def since_start(self, at_s: float) -> float:
        """`at_s` on the curve's own time."""
        return at_s - (at_s if self._began_s is None else self._began_s)

    def points(self) -> list[tuple[float, float]]:
        """(seconds at the bin's middle, messages a second), empty bins included."""
        last = max(self._bins, default=-1)
        return [((n + 0.5) * BIN_S, self._bins[n] / BIN_S) for n in range(last + 1)]
