"""Time and memory limits of connections, and the check whether a connection exceeds them."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from epochmq.base import limits
from epochmq.runtime.listen import BACKLOG
from epochmq.runtime.own_host import memory_bytes


def half_frames_of(memory: int) -> int:
    """Return how many bytes all unfinished frames may use, given the machine's RAM in bytes."""
    return min(limits.HALF_FRAMES_TOTAL_BYTES_MAX, memory // limits.HALF_FRAMES_SHARE)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Limits of connections: times in ms, sizes in bytes. Tests use smaller ones."""

    idle_ms: int = limits.IDLE_MS
    half_frame_ms: int = limits.HALF_FRAME_MS
    closing_ms: int = 5_000
    """The peer of a closed connection must read the last bytes within this time."""
    silent_ms: int = 3_000
    """While connections are refused, one that sent no byte yet is closed after this time.

    A client begins with a request, so a silent connection is not useful.
    """
    stalled_ms: int = 60_000
    """A peer with unread answers must read some bytes within this time."""
    unsent_bytes: int = limits.SESSION_IN_FLIGHT_BYTES_MAX
    unsent_total_bytes: int = limits.UNSENT_TOTAL_BYTES_MAX
    half_frames_total_bytes: int = field(default_factory=lambda: half_frames_of(memory_bytes()))
    connections: int = limits.CONNECTIONS_MAX
    backlog: int = BACKLOG
    """Connections that may wait to be accepted."""

    @property
    def sweep_ms(self) -> int:
        """Interval of the checks: a quarter of the shortest limit, at most one second."""
        shortest = min(self.idle_ms, self.half_frame_ms, self.closing_ms, self.stalled_ms)
        return max(10, min(1_000, shortest // 4))


class Watched(Protocol):
    """The fields that `verdict` checks; times are monotonic ms, None when they do not apply."""

    heard_ms: int
    """Time of the last bytes received; -1 before the first byte."""
    sent_ms: int
    """Time of the last bytes sent, or of the connection's start."""
    closing_since: int | None
    stalled_since: int | None

    @property
    def partial_since(self) -> int | None: ...


def verdict(watched: Watched, bounds: Bounds, now: int, *, crowded: bool = False) -> str | None:
    """Return why the connection must be closed, or None.

    `crowded` says that other connections were refused a moment ago.
    """
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
# A limit on the memory that many connections use together, cheap at each of their steps.
#
# A connection that takes memory adds it to `seen`, and calls `enforce` once `seen` is above
# `limit`. Released memory is not subtracted, so `seen` is never too small. `enforce` counts
# exactly, and closes the largest connections until a quarter of the limit is free. At least that
# much memory is taken before the next exact count.


H = TypeVar("H")

_GOAL = 3 / 4


class Budget(Generic[H]):
    """A memory limit for many holders: `seen` and `limit` are bytes, `held` measures one holder.

    `cut` closes a holder; `what` completes the reason for the log.
    """

    __slots__ = ("_cut", "_held", "_holders", "_what", "limit", "seen")

    def __init__(
        self,
        limit: int,
        holders: Collection[H],
        held: Callable[[H], int],
        cut: Callable[[H, str], None],
        what: str,
    ) -> None:
        self.limit: int = limit
        self.seen: int = 0
        self._holders = holders
        self._held = held
        self._cut = cut
        self._what = what

    def enforce(self, asking: H, wanted: int = 0) -> bool:
        """Count exactly, and cut the largest holders while the total is over the limit.

        `asking` wants `wanted` more bytes. Returns False when `asking` itself was cut.
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
