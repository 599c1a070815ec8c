"""Decides how much of the log is searched when, and which member is asked for which bytes next."""

from collections.abc import Mapping
from typing import NamedTuple

from epochmq.base.backoff import backoff_ms

SEARCH_MS = 1_000
SEARCH_BYTES_MAX = 8 * 1024 * 1024
"""No more at once: other chores of the disk thread wait for it."""
RETRY_MS, RETRY_MS_MAX = 1_000, 600_000
"""The pause after all members were asked in vain; it doubles."""


class AskForBytes(NamedTuple):
    """Ask `address` for the log's bytes `[start, end)`."""

    start: int
    end: int
    address: str


class _Attempt:
    """What was tried for one damaged range."""

    __slots__ = ("asked", "at_ms", "failures")

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self.failures = 0
        self.at_ms = 0


class ScrubCore:
    """The pace of the search, and the order of questions; `now` is monotonic."""

    def __init__(self, bytes_per_second: int, now: int) -> None:
        self._bytes_per_second = bytes_per_second
        self._searched_at_ms = now
        self._attempts: dict[tuple[int, int], _Attempt] = {}
        self.asked = 0

    def search_bytes(self, now: int) -> int:
        """How many bytes to search now; 0 for none."""
        passed = now - self._searched_at_ms
        if passed < SEARCH_MS:
            return 0
        self._searched_at_ms = now
        return min(self._bytes_per_second * passed // 1000, SEARCH_BYTES_MAX)

    def wants_members(self, ranges: list[tuple[int, int]], now: int) -> bool:
        """Whether somebody is to be asked for one of the damaged `ranges` now."""
        self._attempts = {key: self._attempts.get(key) or _Attempt() for key in ranges}
        return any(now >= attempt.at_ms for attempt in self._attempts.values())

    def next_ask(self, members: Mapping[int, str], now: int) -> AskForBytes | None:
        """The next question; a range whose members were all asked waits, longer each time."""
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
