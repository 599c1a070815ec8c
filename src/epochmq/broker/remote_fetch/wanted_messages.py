"""Which pulls bring wanted messages of one queue, and what their answers say of each (RIP-32).

A check point that a slave gave here while it stood in for its master names messages which only its
group has. Pulled from the first wanted one on; each answer's records
count by their own queue offset (rocketmq#7724).
"""

from collections.abc import Iterable, Sequence

from epochmq.model.message import StoredMessage
from epochmq.wire.codes import ResponseCode

PULLS_MAX = 40
COUNT_MAX = 32


class WantedMessages:
    """The messages of one check point that nobody acknowledged."""

    def __init__(self, offsets: Iterable[int]) -> None:
        self._left = sorted(set(offsets))
        self._pulls = 0
        self.found: dict[int, StoredMessage | None] = {}
        """By queue offset; None for what is gone."""

    def next_pull(self) -> tuple[int, int] | None:
        """(offset to pull from, how many at most); None when all is said, or it led nowhere."""
        if not self._left or self._pulls >= PULLS_MAX:
            return None
        self._pulls += 1
        first = self._left[0]
        return first, min(COUNT_MAX, self._left[-1] - first + 1)

    def came(self, messages: Sequence[StoredMessage]) -> None:
        """An answer that found something."""
        last = max((message.queue_offset for message in messages), default=-1)
        by_offset = {message.queue_offset: message for message in messages}
        for at in [at for at in self._left if at <= last]:
            self._left.remove(at)
            self.found[at] = by_offset.get(at)

    def none(self, code: int, low: int, high: int, after: int) -> bool:
        """An answer without messages for a queue `low`..`high`; whether to go on.

        Below `low` a message is gone, and a hole when the queue goes on after it; at a replica
        that lags, or one that may not be read now, nothing can be said.
        """
        first = self._left[0]
        if code == ResponseCode.PULL_OFFSET_MOVED and first < low:
            self._gone(low)
            return True
        hole = code in (ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED)
        if hole and first < after <= high:
            self._gone(after)
            return True
        return False

    def _gone(self, below: int) -> None:
        for at in [at for at in self._left if at < below]:
            self._left.remove(at)
            self.found[at] = None
