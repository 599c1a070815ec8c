from dataclasses import dataclass

import pytest

from epochmq.base import limits
from epochmq.runtime.bounds import Bounds, half_frames_of, verdict

BOUNDS = Bounds(idle_ms=1_000, half_frame_ms=300, closing_ms=50, stalled_ms=400)


@dataclass
class Seen:
    heard_ms: int = 0
    sent_ms: int = 0
    closing_since: int | None = None
    stalled_since: int | None = None
    partial_since: int | None = None


@pytest.mark.parametrize(
    ("seen", "now", "word"),
    [
        (Seen(), 1_000, None),
        (Seen(), 1_001, "idle"),
        (Seen(sent_ms=500), 1_400, None),
        (Seen(heard_ms=500), 1_501, "idle"),
        (Seen(partial_since=0), 300, None),
        (Seen(heard_ms=301, partial_since=0), 301, "not whole"),
        (Seen(stalled_since=0), 400, None),
        (Seen(heard_ms=401, stalled_since=0), 401, "reads none"),
        (Seen(closing_since=0), 50, None),
        (Seen(closing_since=0), 51, "last bytes"),
        (Seen(closing_since=5_000), 5_001, None),
    ],
)
def test_each_bound_has_its_verdict(seen: Seen, now: int, word: str | None) -> None:
    reason = verdict(seen, BOUNDS, now)
    assert reason is None if word is None else word in str(reason)


def test_under_pressure_connections_that_sent_nothing_are_closed_first() -> None:
    bounds = Bounds(silent_ms=5_000)
    silent, used = Seen(heard_ms=-1, sent_ms=100), Seen(heard_ms=0, sent_ms=100)
    assert verdict(silent, bounds, 5_101) is None
    assert verdict(silent, bounds, 5_100, crowded=True) is None
    assert "silent for 5000 ms" in str(verdict(silent, bounds, 5_101, crowded=True))
    assert verdict(used, bounds, 5_101, crowded=True) is None


def test_unfinished_frames_have_a_share_of_the_memory() -> None:
    assert half_frames_of(1 << 50) == limits.HALF_FRAMES_TOTAL_BYTES_MAX
    assert half_frames_of(1 << 30) == (1 << 30) // limits.HALF_FRAMES_SHARE
    assert Bounds().half_frames_total_bytes <= limits.HALF_FRAMES_TOTAL_BYTES_MAX


def test_sweeps_are_as_frequent_as_the_shortest_bound_needs() -> None:
    assert Bounds().sweep_ms == 1_000
    assert BOUNDS.sweep_ms == 12
    assert Bounds(idle_ms=1).sweep_ms == 10
