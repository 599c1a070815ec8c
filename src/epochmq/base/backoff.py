"""Exponential back-off: how long to wait before something that failed is tried again."""

_DOUBLINGS_MAX = 30
"""More of them change nothing: every limit is below the first pause times 2**30."""


def backoff_ms(failures: int, first_ms: int, most_ms: int) -> int:
    """Return the pause after a failure: `first_ms`, doubled for each failure before, then bounded.

    `failures` counts the failures before this one, from 0. `first_ms` is the pause after the first
    failure, in milliseconds and more than 0; `most_ms` is the longest pause, in milliseconds, and
    less than `first_ms` times 2**30. The result is in milliseconds, at most `most_ms`, without a
    random part. A negative `failures` raises `ValueError`.
    """
    return min(first_ms << min(failures, _DOUBLINGS_MAX), most_ms)
