"""A total with its rates over 10 s, 1 min and 10 min, as RocketMQ prints them ("10.0 9.8 9.9")."""

from collections import deque

WINDOWS_S = (10, 60, 600)
SAMPLE_MS = 1000


class Meter:
    """Counts up; one sample a second is kept for the longest window."""

    __slots__ = ("_samples", "total")

    def __init__(self) -> None:
        self.total = 0
        self._samples: deque[tuple[int, int]] = deque(maxlen=WINDOWS_S[-1] + 1)

    def sample(self, now: int) -> None:
        """Remember the total of this second; called once a second."""
        self._samples.append((now, self.total))

    def rate(self, window_s: int) -> float:
        """Counts a second over the newest `window_s` seconds, or over what there is of them."""
        samples = self._samples
        if len(samples) < 2:
            return 0.0
        now, total = samples[-1]
        before, base = samples[max(0, len(samples) - 1 - window_s)]
        return (total - base) * 1000 / (now - before) if now > before else 0.0

    def text(self) -> str:
        """The three rates, separated by spaces."""
        return " ".join(f"{self.rate(window):.6g}" for window in WINDOWS_S)
