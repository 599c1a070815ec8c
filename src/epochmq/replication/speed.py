"""How fast bytes go over each link, measured over spans of a second."""

from collections.abc import Mapping

SPAN_MS = 1_000


class Speeds:
    """Looks at totals by link now and then; figures are of the last whole span."""

    def __init__(self) -> None:
        self._at_ms: int | None = None
        self._totals: dict[int, int] = {}
        self._speeds: dict[int, int] = {}

    def sample(self, now: int, totals: Mapping[int, int]) -> None:
        """`totals` are bytes since each link began; looked at when a span is over."""
        if self._at_ms is not None and now - self._at_ms < SPAN_MS:
            return
        if self._at_ms is not None:
            took_ms = now - self._at_ms
            self._speeds = {
                link: max(0, total - self._totals.get(link, 0)) * 1000 // took_ms
                for link, total in totals.items()
            }
        self._at_ms, self._totals = now, dict(totals)

    def of(self, link: int) -> int:
        """Bytes a second; 0 for a link that is younger than a span."""
        return self._speeds.get(link, 0)
