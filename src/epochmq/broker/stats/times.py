"""How long it took to store messages, in RocketMQ's classes."""

from bisect import bisect_left

BOUNDS_MS = (0, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
"""The longest time of each class but the last."""

NAMES = (
    "<=0ms",
    "0~10ms",
    "10~50ms",
    "50~100ms",
    "100~200ms",
    "200~500ms",
    "500ms~1s",
    "1~2s",
    "2~3s",
    "3~4s",
    "4~5s",
    "5~10s",
    "10s~",
)


class PutTimes:
    """Counts messages by the time that their append took."""

    __slots__ = ("_counts", "longest_ms")

    def __init__(self) -> None:
        self._counts = [0] * len(NAMES)
        self.longest_ms = 0

    def add(self, took_ms: int, messages: int) -> None:
        """Messages that one append stored."""
        if took_ms <= 0:
            self._counts[0] += messages
            return
        self._counts[bisect_left(BOUNDS_MS, took_ms)] += messages
        self.longest_ms = max(self.longest_ms, took_ms)

    def text(self) -> str:
        """As RocketMQ prints it: "[<=0ms]:7 [0~10ms]:1 ..."."""
        return " ".join(
            f"[{name}]:{count}" for name, count in zip(NAMES, self._counts, strict=True)
        )
