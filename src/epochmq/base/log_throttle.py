"""Limits how often a log line is written that peers can cause."""

KEYS_MAX = 1_024
"""Number of keys whose last line is remembered; the oldest is forgotten first."""


class LogThrottle:
    """Allows one line per `period_ms` for each key; the next line counts those left out."""

    def __init__(self, period_ms: int) -> None:
        self._period_ms = period_ms
        self._last: dict[str, tuple[int, int]] = {}

    def left_out(self, key: str, now: int) -> int | None:
        """Return None when no line may be written for `key`, else the number left out before."""
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
    """Return the end of a log line, which counts the `count` lines left out."""
    return f" ({count} more such lines were left out)" if count else ""
