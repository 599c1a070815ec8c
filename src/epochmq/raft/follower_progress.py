"""What a leader knows of one follower, and how fast it sends to it."""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from epochmq.raft.options import RaftOptions


class AppendPace(Enum):
    """How appends are sent."""

    PROBE = "probe"
    """One at a time until it is known where the logs agree."""
    STREAM = "stream"
    """Ahead of the answers, within the window."""
    SNAPSHOT = "snapshot"
    """Nothing until the snapshot is answered."""


@dataclass(slots=True)
class FollowerProgress:
    """One follower; `next` is the next index to send, all up to `match` is known to be there."""

    next: int
    heard_at: int
    """When it last said anything in this term."""
    known_since_round: int = 0
    """The newest round of heartbeats when its present disk was recorded."""
    match: int = 0
    pace: AppendPace = AppendPace.PROBE
    waiting: bool = False
    """A probe is out; the next heartbeat's answer ends the wait."""
    round: int = 0
    """The newest round of heartbeats that it answered."""
    round_sent_at: int | None = None
    """When the leader sent that heartbeat."""
    snapshot_index: int = 0
    snapshot_at: int = 0
    _window: deque[tuple[int, int]] = field(default_factory=deque)
    _window_bytes: int = 0

    def may_send(self, options: RaftOptions) -> bool:
        if self.pace is AppendPace.STREAM:
            full = len(self._window) >= options.in_flight_max
            return not full and self._window_bytes < options.in_flight_bytes_max
        return self.pace is AppendPace.PROBE and not self.waiting

    def sent(self, last: int, size: int) -> None:
        """Entries up to `last` are on their way."""
        if self.pace is AppendPace.PROBE:
            self.waiting = True
        elif last >= self.next:
            self.next = last + 1
            self._window.append((last, size))
            self._window_bytes += size

    def sent_snapshot(self, index: int, now: int) -> None:
        self.pace, self.snapshot_index, self.snapshot_at = AppendPace.SNAPSHOT, index, now
        self._empty_window()

    def accepted(self, index: int) -> bool:
        """The follower has all up to `index`; whether that is news.

        The answer to a probe says at least the index that the probe follows, `next - 1`. What says
        less, and nothing new, answers an older append and comes late. It must not begin a stream,
        which sends the whole window again.
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
        """An append after `index` did not fit, the logs may agree at `agreed`; False if stale."""
        if self.pace is AppendPace.SNAPSHOT or index <= self.match:
            return False
        if self.pace is AppendPace.PROBE and index != self.next - 1:
            return False
        self.probe_from(max(self.match, min(agreed, index - 1)) + 1)
        return True

    def probe_from(self, index: int) -> None:
        self.pace, self.waiting, self.next = AppendPace.PROBE, False, index
        self._empty_window()

    def answered_heartbeat(self, options: RaftOptions) -> None:
        """It lives: a probe may have been lost, and so may the oldest append of a full window."""
        self.waiting = False
        if self._window and not self.may_send(options):
            self._window_bytes -= self._window.popleft()[1]

    def _empty_window(self) -> None:
        self._window.clear()
        self._window_bytes = 0
