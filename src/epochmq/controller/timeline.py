"""The latest failovers as the leader saw them: for `epochmq top`, the demo and post-mortems.

Times are those of this controller's monotonic clock; what is told are ages, so that whoever asks
can place them on a clock of its own.
"""

from collections import deque
from dataclasses import dataclass

from epochmq.base import limits
from epochmq.controller.controller_state import BrokerGroup, Key


@dataclass(slots=True)
class Failover:
    """One election; -1 for what has not happened, or was not seen from here."""

    key: Key
    epoch: int
    master: int
    address: str
    last_heard_ms: int
    """The last heartbeat of the master before."""
    detected_ms: int
    """Somebody decided that it is dead, or to take another."""
    elected_ms: int
    """The new master is committed."""
    applied_ms: int = -1
    """The new master reported the new epoch."""


class Timeline:
    """Bounded; forgotten when another controller leads."""

    def __init__(self) -> None:
        self.failovers: deque[Failover] = deque(maxlen=limits.TIMELINE_MAX)
        self._detected: dict[Key, tuple[int, int]] = {}
        self._open: dict[Key, Failover] = {}

    def clear(self) -> None:
        """We lead no more."""
        self.failovers.clear()
        self._detected.clear()
        self._open.clear()

    def detected(self, key: Key, last_heard_ms: int, now: int) -> None:
        """An election is proposed."""
        self._detected[key] = (last_heard_ms, now)

    def elected(self, group: BrokerGroup, now: int) -> None:
        """It was committed."""
        heard_ms, detected_ms = self._detected.pop(group.key, (-1, now))
        master = group.master_replica()
        if master is None:
            return
        failover = Failover(
            group.key, group.epoch, master.id, master.address, heard_ms, detected_ms, now
        )
        self.failovers.append(failover)
        self._open[group.key] = failover

    def reported(self, key: Key, broker_id: int, epoch: int, now: int) -> None:
        """A heartbeat of a master came, with the last epoch of its log."""
        failover = self._open.get(key)
        if failover is not None and (failover.master, failover.epoch) == (broker_id, epoch):
            failover.applied_ms = now
            del self._open[key]
