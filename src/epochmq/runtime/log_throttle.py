"""Keeps a log line that strangers can cause from being written more than once in a while."""

KEYS_MAX = 1_024
"""Peers whose last line is remembered; the one that was remembered first is forgotten first."""


class LogThrottle:
    """One line a `period_ms` for each key; the next one says how many were left out."""

    def __init__(self, period_ms: int) -> None:
        self._period_ms = period_ms
        self._last: dict[str, tuple[int, int]] = {}

    def left_out(self, key: str, now: int) -> int | None:
        """None when no line may be written for `key` now, else how many were left out before."""
        last = self._last.get(key)
        if last is not None and now - last[0] < self._period_ms:
            self._last[key] = (last[0], last[1] + 1)
            return None
        if last is None and len(self._last) >= KEYS_MAX:
            del self._last[next(iter(self._last))]
        self._last.pop(key, None)
        self._last[key] = (now, 0)
        return 0 if last is None else last[1]


def also_left_out(count: int) -> str:
    """The end of a line that stands for `count` more."""
    return f" ({count} more such lines were left out)" if count else ""
