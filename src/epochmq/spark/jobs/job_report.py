"""The report of a job: rows, bytes, ranges, time and rate, as text and as JSON."""

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from epochmq.base.errors import EnvironmentFault, UsageError

Progress = Callable[[float, float | None, str], None]
"""Called often with the amount done, the total if known, and a short text."""

DRY_RUN = "dry-run"

SHOWN_RANGES_MAX = 32
"""The most ranges in the text; JSON has all of them."""


def no_progress(_done: float, _total: float | None, _text: str) -> None:
    """A `Progress` that does nothing."""


@dataclass
class JobReport:
    """The report of one run of a job; `bytes` were written, or read by a job that writes none."""

    job: str
    status: str = "done"
    """done, dry-run, or interrupted (the counted work is finished in any case)."""
    rows: int = 0
    bytes: int = 0
    ranges: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    """Topic -> "broker:queueId" -> [start, end): the queue offsets that were processed."""
    seconds: float = 0.0
    details: dict[str, object] = field(default_factory=dict)
    """Details of this job: texts and numbers, also lists and tables of them."""
    _began: float = field(default_factory=time.monotonic, repr=False)

    def add_range(self, topic: str, queue: str, start: int, end: int) -> None:
        """Extend the range of a queue."""
        known = self.ranges.setdefault(topic, {}).setdefault(queue, [start, end])
        known[0], known[1] = min(known[0], start), max(known[1], end)

    def finish(self, status: str | None = None) -> "JobReport":
        """Set the elapsed time and the status, and return the report."""
        self.seconds = time.monotonic() - self._began
        self.status = status or self.status
        return self

    @property
    def rate(self) -> float:
        """Rows per second; 0 without elapsed time, and for a dry run."""
        return self.rows / self.seconds if self.seconds > 0 and self.status != DRY_RUN else 0.0

    def as_json(self) -> dict[str, object]:
        """Return the whole report for JSON."""
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
        """Return the report as a text of one page."""
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


# Job lock ------------------------------------------------------------------------------------
# Allows one job at a time per checkpoint: a lock file that the kernel releases when its owner dies.


FILE = "lock"


class CheckpointInUse(EnvironmentFault):
    """Raised when another job uses this checkpoint."""


class CheckpointLock:
    """The lock of a checkpoint directory: `with CheckpointLock(directory, "archive"): ...`"""

    def __init__(self, directory: Path, job: str) -> None:
        self._path = directory / FILE
        self._job = job
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = self._path.open("a+")
        except OSError as error:
            raise UsageError(
                f"the checkpoint directory {self._path.parent} cannot be used: {error.strerror}"
            ) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            said = _owner(file.read(4096))
            file.close()
            raise CheckpointInUse(
                f"{self._path.parent} is in use by {said}: wait for it, stop it, or name another"
                " checkpoint and table"
            ) from None
        self._file = file
        file.truncate(0)
        file.write(json.dumps(self._me()))
        file.flush()
        return self

    def _me(self) -> dict[str, object]:
        return {
            "job": self._job,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()  # this releases the lock


def _owner(text: str) -> str:
    try:
        found = json.loads(text)
        return (
            f"job {found['job']}, process {found['pid']} on {found['host']} since {found['since']}"
        )
    except (ValueError, KeyError, TypeError):
        return "another job"
