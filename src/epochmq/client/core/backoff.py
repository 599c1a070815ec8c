"""Delays between tries: doubling up to a bound, spread so that clients do not march in step."""

from epochmq.base.ports import Rng


def delay_ms(attempt: int, rng: Rng, *, first_ms: int = 50, most_ms: int = 3_000) -> int:
    """Milliseconds before try `attempt` (1 is the first repeat): half fixed, half chance."""
    ceiling = min(most_ms, first_ms << min(attempt - 1, 16))
    return ceiling // 2 + rng.randrange(ceiling // 2 + 1)
