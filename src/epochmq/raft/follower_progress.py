"""The state that a leader keeps for each follower, and how fast it sends to the follower."""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from epochmq.raft.options import RaftOptions


class AppendPace(Enum):
    """How appends are sent to a follower."""

    PROBE = "probe"
    """One at a time, until it is known where the logs agree."""
    STREAM = "stream"
    """Without waiting for answers, within the window."""
    SNAPSHOT = "snapshot"
    """None, until the follower answers the snapshot."""


@dataclass(slots=True)
class FollowerProgress:
    """The progress of one follower: `next` is the next index to send, `match` the last one known
    there.
    """

    next: int
    heard_at: int
    """When it last sent a message in this term."""
    known_since_round: int = 0
    """The newest round of heartbeats at the time when its present disk was recorded."""
    match: int = 0
    pace: AppendPace = AppendPace.PROBE
    waiting: bool = False
    """A probe is sent; the answer to the next heartbeat ends the wait."""
    round: int = 0
    """The newest round of heartbeats that it answered."""
    round_sent_at: int | None = None
    """When the leader sent that heartbeat."""
    snapshot_index: int = 0
    snapshot_at: int = 0
    _window: deque[tuple[int, int]] = field(default_factory=deque)
    _window_bytes: int = 0

    def may_send(self, options: RaftOptions) -> bool:
        """Whether an append may be sent now."""
        if self.pace is AppendPace.STREAM:
            full = len(self._window) >= options.in_flight_max
            return not full and self._window_bytes < options.in_flight_bytes_max
        return self.pace is AppendPace.PROBE and not self.waiting

    def sent(self, last: int, size: int) -> None:
        """Note that entries up to `last`, of `size` bytes, were sent."""
        if self.pace is AppendPace.PROBE:
            self.waiting = True
        elif last >= self.next:
            self.next = last + 1
            self._window.append((last, size))
            self._window_bytes += size

    def sent_snapshot(self, index: int, now: int) -> None:
        """Note that the snapshot up to `index` was sent."""
        self.pace, self.snapshot_index, self.snapshot_at = AppendPace.SNAPSHOT, index, now
        self._empty_window()

    def accepted(self, index: int) -> bool:
        """Note that the follower has all entries up to `index`. Return whether `match` rose.

        The answer to a probe has at least the index before the probe, `next - 1`. A smaller index
        that is not new answers an older append and comes late. It must not start streaming, which
        would send the whole window again.
        """
        while self._window and self._window[0][0] <= index:
            self._window_bytes -= self._window.popleft()[1]
        news = index > self.match
        ends_probe = self.pace is AppendPace.PROBE and (news or index >= self.next - 1)
        self.match = max(self.match, index)
        self.next = max(self.next, index + 1)
        if ends_probe or (self.pace is AppendPace.SNAPSHOT and self.match >= self.snapshot_index):
            self.pace, self.waiting, self.next = AppendPace.STREAM, False, self.match + 1
        return news

    def refused(self, index: int, agreed: int) -> bool:
        """Note that an append after `index` was refused. Return False if the answer is too old.

        Args:
            index: the index before the refused entries.
            agreed: an index at which the logs may agree.
        """
        if self.pace is AppendPace.SNAPSHOT or index <= self.match:
            return False
        if self.pace is AppendPace.PROBE and index != self.next - 1:
            return False
        self.probe_from(max(self.match, min(agreed, index - 1)) + 1)
        return True

    def probe_from(self, index: int) -> None:
        """Send one append at a time again, beginning with `index`."""
        self.pace, self.waiting, self.next = AppendPace.PROBE, False, index
        self._empty_window()

    def answered_heartbeat(self, options: RaftOptions) -> None:
        """Note that it lives. A probe, or the oldest append of a full window, may have
        been lost.
        """
        self.waiting = False
        if self._window and not self.may_send(options):
            self._window_bytes -= self._window.popleft()[1]

    def _empty_window(self) -> None:
        self._window.clear()
        self._window_bytes = 0
