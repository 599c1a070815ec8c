"""Decides which broker of a group gets the requests of clients: the master that serves.

A state comes from the broker itself, by MASTER_STATE (34008), never from another party. An
acknowledgement does not depend on this choice: a deposed master refuses by itself (INV-25).
"""

from dataclasses import dataclass

from epochmq.base import limits


@dataclass(frozen=True, slots=True)
class MasterState:
    """What one broker says of itself."""

    writable: bool
    acting: bool
    epoch: int
    """Epoch of the master; 0 without controllers."""


class MasterTracker:
    """The states of the brokers of one group, and the chosen one.

    The writable broker with the highest epoch is chosen; without one an acting master (RIP-32),
    which serves reads, offsets, locks and POP. Of equal ones the present one stays.
    """

    def __init__(self) -> None:
        self.master: str | None = None
        """Address of the chosen broker."""
        self.changes = 0
        """Counts the changes of `master`, and returns of the same broker."""
        self._states: dict[str, MasterState] = {}

    @property
    def epoch(self) -> int:
        """Epoch of the chosen broker; 0 without one."""
        return 0 if self.master is None else self._states[self.master].epoch

    def told(self, address: str, state: MasterState) -> bool:
        """Note the state of the broker at `address`; return whether `master` changed."""
        if not 0 <= state.epoch <= limits.EPOCH_MAX or not (state.writable or state.acting):
            return self.lost(address)
        self._states[address] = state
        return self._choose()

    def lost(self, address: str) -> bool:
        """Note that the broker is not reachable, or does not serve; return whether `master`
        changed."""
        self._states.pop(address, None)
        return self._choose()

    def _choose(self) -> bool:
        best = max(self._states, key=self._rank, default=None)
        if best == self.master:
            return False
        self.master = best
        self.changes += 1
        return True

    def _rank(self, address: str) -> tuple[bool, int, bool]:
        state = self._states[address]
        return state.writable, state.epoch, address == self.master
