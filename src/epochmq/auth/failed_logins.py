"""Failed logins: slows down an attacker who tries passwords, and limits the log lines about it."""

from collections import OrderedDict

FREE_FAILURES = 10
"""Failures of one user name from one address before further requests are refused unseen."""
BLOCK_MS = 1_000
"""Time for which they are refused; one request is checked after that."""
FORGET_MS = 60_000
KEYS_MAX = 10_000


class FailedLogins:
    """Counts failures by user name and address. All times are monotonic ms.

    Args:
        free_failures: failures before further requests are refused unseen.
        block_ms: time for which they are refused.
    """

    def __init__(self, free_failures: int = FREE_FAILURES, block_ms: int = BLOCK_MS) -> None:
        self._free_failures = free_failures
        self._block_ms = block_ms
        self._failures: OrderedDict[tuple[str, str], tuple[int, int]] = OrderedDict()
        """(number of failures, time of the last one), the longest unused first."""

    def is_blocked(self, name: str, address: str, now: int) -> bool:
        """Return whether requests of `name` from `address` are refused without a check."""
        count, last = self._failures.get((name, address), (0, 0))
        return count >= self._free_failures and now - last < self._block_ms

    def failed(self, name: str, address: str, now: int) -> None:
        """Count a failure."""
        key = name, address
        count, last = self._failures.pop(key, (0, now))
        self._failures[key] = (1 if now - last >= FORGET_MS else count + 1, now)
        if len(self._failures) > KEYS_MAX:
            self._failures.popitem(last=False)

    def succeeded(self, name: str, address: str) -> None:
        """Forget the failures: the right password came from this address."""
        if self._failures:
            self._failures.pop((name, address), None)

    def __len__(self) -> int:
        return len(self._failures)
