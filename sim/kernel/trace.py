"""The trace of events in order: a hash of all lines, and the last lines (rule 3, INV-90).

A line has time, sequence number, host and label. Labels consist of names and numbers, never of a
repr, an id or a hash.
"""

import hashlib
from collections import deque

KEPT = 40
_CHUNK = 512


class Trace:
    """SHA-256 over all lines; the last `KEPT` lines are kept as text."""

    def __init__(self, keep: int = KEPT) -> None:
        self._hash = hashlib.sha256()
        self._waiting: list[str] = []
        self._last: deque[str] = deque(maxlen=keep)
        self.count = 0

    def line(self, time_us: int, sequence: int, host: str, label: str) -> None:
        text = f"{time_us} {sequence} {host} {label}"
        self.count += 1
        self._last.append(text)
        waiting = self._waiting
        waiting.append(text)
        if len(waiting) >= _CHUNK:
            self._settle()

    def _settle(self) -> None:
        self._hash.update("\n".join(self._waiting).encode())
        self._waiting.clear()

    def digest(self) -> str:
        self._settle()
        return self._hash.copy().hexdigest()

    def last(self) -> list[str]:
        """Return the last lines for people, with times in ms."""
        found = []
        for text in self._last:
            time, _, rest = text.partition(" ")
            found.append(f"{int(time) / 1000:12.3f} ms  {rest}")
        return found
