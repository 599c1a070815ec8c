"""Plans the scrub: how much of the log to search when, and which member to ask for which bytes."""

from collections.abc import Mapping
from typing import NamedTuple

from epochmq.base.backoff import backoff_ms

SEARCH_MS = 1_000
SEARCH_BYTES_MAX = 8 * 1024 * 1024
"""The most bytes in one search, because other work of the disk thread waits for it."""
RETRY_MS, RETRY_MS_MAX = 1_000, 600_000
"""The pause (ms) after all members were asked without success; it doubles up to the second
value."""


class AskForBytes(NamedTuple):
    """Ask the member at `address` for the log's bytes `[start, end)`."""

    start: int
    end: int
    address: str


class _Attempt:
    """The attempts to repair one damaged range."""

    __slots__ = ("asked", "at_ms", "failures")

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self.failures = 0
        self.at_ms = 0


class ScrubCore:
    """Plans the search and the requests; `now` is monotonic ms."""

    def __init__(self, bytes_per_second: int, now: int) -> None:
        self._bytes_per_second = bytes_per_second
        self._searched_at_ms = now
        self._attempts: dict[tuple[int, int], _Attempt] = {}
        self.asked = 0

    def search_bytes(self, now: int) -> int:
        """Return how many bytes to search now; 0 for none."""
        passed = now - self._searched_at_ms
        if passed < SEARCH_MS:
            return 0
        self._searched_at_ms = now
        return min(self._bytes_per_second * passed // 1000, SEARCH_BYTES_MAX)

    def wants_members(self, ranges: list[tuple[int, int]], now: int) -> bool:
        """Return whether a member must be asked for one of the damaged `ranges` now."""
        self._attempts = {key: self._attempts.get(key) or _Attempt() for key in ranges}
        return any(now >= attempt.at_ms for attempt in self._attempts.values())

    def next_ask(self, members: Mapping[int, str], now: int) -> AskForBytes | None:
        """Return the next request; a range whose members were all asked waits, longer each time."""
        for (start, end), attempt in self._attempts.items():
            if now < attempt.at_ms:
                continue
            left = [members[n] for n in sorted(members) if members[n] not in attempt.asked]
            if left:
                attempt.asked.add(left[0])
                self.asked += 1
                return AskForBytes(start, end, left[0])
            attempt.asked.clear()
            attempt.at_ms = now + backoff_ms(attempt.failures, RETRY_MS, RETRY_MS_MAX)
            attempt.failures += 1
        return None
