"""Which brokers to avoid for a while: RocketMQ's latency fault tolerance.

A try that took long, or failed, makes its broker unavailable for a time that grows with the
latency seen. Avoidance is a preference: when every broker is avoided, any of them is used.
"""

LATENCIES_MS = (50, 100, 550, 1_000, 2_000, 3_000, 15_000)
UNAVAILABLE_MS = (0, 0, 30_000, 60_000, 120_000, 180_000, 600_000)
FAILED_LATENCY_MS = 30_000
"""A failed try counts as one this slow."""


def penalty_ms(latency_ms: int) -> int:
    """How long a broker that answered in `latency_ms` is avoided."""
    for bound, penalty in zip(reversed(LATENCIES_MS), reversed(UNAVAILABLE_MS), strict=True):
        if latency_ms >= bound:
            return penalty
    return 0


class FaultTable:
    """Remembers until when each broker name is avoided."""

    def __init__(self) -> None:
        self._avoid_until_ms: dict[str, int] = {}

    def answered(self, broker_name: str, latency_ms: int, now: int) -> None:
        """A try was answered after `latency_ms`."""
        penalty = penalty_ms(latency_ms)
        if penalty:
            self._avoid_until_ms[broker_name] = now + penalty
        else:
            self._avoid_until_ms.pop(broker_name, None)

    def failed(self, broker_name: str, now: int) -> None:
        """A try got no answer."""
        self._avoid_until_ms[broker_name] = now + penalty_ms(FAILED_LATENCY_MS)

    def available(self, broker_name: str, now: int) -> bool:
        """Whether `broker_name` is not avoided now."""
        return self._avoid_until_ms.get(broker_name, 0) <= now

    def statistics(self) -> dict[str, int]:
        """Broker names and the monotonic ms until which each is avoided."""
        return dict(self._avoid_until_ms)
