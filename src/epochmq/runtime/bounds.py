"""How long and how large a connection may be, and the verdict on one that is not."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from epochmq.base import limits
from epochmq.runtime.listen import BACKLOG
from epochmq.runtime.own_host import memory_bytes


def half_frames_of(memory: int) -> int:
    """How many bytes unfinished frames may take on a machine with so much memory."""
    return min(limits.HALF_FRAMES_TOTAL_BYTES_MAX, memory // limits.HALF_FRAMES_SHARE)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Times in ms, sizes in bytes; tests shrink them."""

    idle_ms: int = limits.IDLE_MS
    half_frame_ms: int = limits.HALF_FRAME_MS
    closing_ms: int = 5_000
    """A closed connection's last bytes must be taken by the peer within this time."""
    silent_ms: int = 3_000
    """While connections are refused for want of room, one that has not sent a byte yet stays so
    long: a client begins with a request."""
    stalled_ms: int = 60_000
    """A peer that owes us reading must take some bytes within this time."""
    unsent_bytes: int = limits.SESSION_IN_FLIGHT_BYTES_MAX
    unsent_total_bytes: int = limits.UNSENT_TOTAL_BYTES_MAX
    half_frames_total_bytes: int = field(default_factory=lambda: half_frames_of(memory_bytes()))
    connections: int = limits.CONNECTIONS_MAX
    backlog: int = BACKLOG
    """Connections that may wait to be accepted."""

    @property
    def sweep_ms(self) -> int:
        """How often to look: fine enough for the shortest bound, at most once a second."""
        shortest = min(self.idle_ms, self.half_frame_ms, self.closing_ms, self.stalled_ms)
        return max(10, min(1_000, shortest // 4))


class Watched(Protocol):
    """What the verdict looks at; all times monotonic ms, None when it does not apply."""

    heard_ms: int
    """-1 before the first byte."""
    sent_ms: int
    """When something was sent last, or the connection was made."""
    closing_since: int | None
    stalled_since: int | None

    @property
    def partial_since(self) -> int | None: ...


def verdict(watched: Watched, bounds: Bounds, now: int, *, crowded: bool = False) -> str | None:
    """Why the connection must go, or None. `crowded`: others were refused a moment ago."""
    closing = watched.closing_since
    if closing is not None:
        return "does not take its last bytes" if now - closing > bounds.closing_ms else None
    partial = watched.partial_since
    if partial is not None and now - partial > bounds.half_frame_ms:
        return f"a frame is not whole after {bounds.half_frame_ms} ms"
    stalled = watched.stalled_since
    if stalled is not None and now - stalled > bounds.stalled_ms:
        return f"reads none of its answers for {bounds.stalled_ms} ms"
    if crowded and watched.heard_ms < 0 and now - watched.sent_ms > bounds.silent_ms:
        return f"silent for {bounds.silent_ms} ms while others were refused"
    if now - max(watched.heard_ms, watched.sent_ms) > bounds.idle_ms:
        return f"idle for {bounds.idle_ms} ms"
    return None


# Budget --------------------------------------------------------------------------------------
# A bound on what many connections hold together, for next to nothing at each of their steps.
#
# Whoever takes more adds it to `seen` and calls `settle` once that is above `limit`; nobody says
# when something is given back. So `seen` is never too small, and when it reaches the limit
# everything is counted exactly. Who holds the most then has to go, until a quarter of the limit
# is free: at least that much passes before the next count.


H = TypeVar("H")

_GOAL = 3 / 4


class Budget(Generic[H]):
    """`seen` and `limit` are in bytes; `held` tells what one of `holders` holds."""

    __slots__ = ("_cut", "_held", "_holders", "_what", "limit", "seen")

    def __init__(
        self,
        limit: int,
        holders: Collection[H],
        held: Callable[[H], int],
        cut: Callable[[H, str], None],
        what: str,
    ) -> None:
        self.limit = limit
        self.seen = 0
        self._holders = holders
        self._held = held
        self._cut = cut
        self._what = what

    def enforce(self, asking: H, wanted: int = 0) -> bool:
        """Count exactly, `wanted` bytes more for `asking`; cut the largest while it is too much.

        False when `asking` was cut.
        """
        held = self._held
        sizes = {holder: held(holder) for holder in self._holders}
        sizes[asking] = held(asking) + wanted
        self.seen = total = sum(sizes.values())
        goal = int(self.limit * _GOAL)
        if total <= goal:
            return True
        stays = True
        for holder in sorted(sizes, key=sizes.__getitem__, reverse=True):
            if self.seen <= goal:
                break
            self.seen -= sizes[holder]
            stays = stays and holder is not asking
            self._cut(holder, f"all peers together {self._what} {total} bytes, this one the most")
        return stays
