"""What a job did: rows, bytes, ranges, time and rate, as text for people and JSON for programs."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

Progress = Callable[[float, float | None, str], None]
"""Called often with what is done, the total where it is known, and a few words."""

DRY_RUN = "dry-run"

SHOWN_RANGES_MAX = 32
"""The text names so many ranges; JSON has them all."""


def no_progress(_done: float, _total: float | None, _text: str) -> None:
    """For callers who do not want to know."""


@dataclass
class JobReport:
    """One run of one job. `bytes` are those written, or read where a job writes none."""

    job: str
    status: str = "done"
    """done, dry-run, or interrupted (what is counted is finished work all the same)."""
    rows: int = 0
    bytes: int = 0
    ranges: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    """Topic -> "broker:queueId" -> [start, end): queue offsets that were taken."""
    seconds: float = 0.0
    details: dict[str, object] = field(default_factory=dict)
    """What only this job has to say; words and numbers, also lists and tables of them."""
    _began: float = field(default_factory=time.monotonic, repr=False)

    def add_range(self, topic: str, queue: str, start: int, end: int) -> None:
        """Widen the range of a queue."""
        known = self.ranges.setdefault(topic, {}).setdefault(queue, [start, end])
        known[0], known[1] = min(known[0], start), max(known[1], end)

    def finish(self, status: str | None = None) -> "JobReport":
        """Take the time."""
        self.seconds = time.monotonic() - self._began
        self.status = status or self.status
        return self

    @property
    def rate(self) -> float:
        """Rows a second; 0 of a single moment, and of a dry run."""
        return self.rows / self.seconds if self.seconds > 0 and self.status != DRY_RUN else 0.0

    def as_json(self) -> dict[str, object]:
        """All of it."""
        return {
            "job": self.job,
            "status": self.status,
            "rows": self.rows,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "rowsPerSecond": round(self.rate, 1),
            "ranges": self.ranges,
            **self.details,
        }

    def as_text(self) -> str:
        """One page."""
        lines = [
            f"{self.job}: {self.status} in {self.seconds:.1f} s",
            _line("rows", f"{self.rows:,} ({self.rate:,.0f}/s)"),
            _line("bytes", f"{self.bytes / 1e6:,.1f} MB"),
        ]
        lines += [_line(name, _words(value)) for name, value in self.details.items()]
        return "\n".join(lines + self._range_lines())

    def _range_lines(self) -> list[str]:
        found = [
            f"    {topic} {queue}  {start:,} .. {end:,}"
            for topic, queues in sorted(self.ranges.items())
            for queue, (start, end) in sorted(queues.items())
        ]
        if not found:
            return []
        more = len(found) - SHOWN_RANGES_MAX
        rest = [f"    and {more:,} more"] if more > 0 else []
        return [_line("ranges", f"{len(found):,} queues"), *found[:SHOWN_RANGES_MAX], *rest]


def _line(name: str, text: str) -> str:
    return f"  {name:<12} {text}"


def _words(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}"
    if isinstance(value, dict):
        return ", ".join(f"{key}={_words(each)}" for key, each in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_words, value)) or "none"
    return str(value)
