"""Whether the store takes writes: not when fenced, closed, or out of space or descriptors.

A full disk is no failure: it refuses and heals, and so does a process without a file descriptor or
memory to spare. Any other failed write or sync is final, since
memory and device may disagree from then on (fsyncgate).
"""

import logging
from collections.abc import Callable

from epochmq.base.errors import DiskFull, EnvironmentFault, OutOfResources
from epochmq.base.ports import Disk
from epochmq.store.draft import PutStatus

_log = logging.getLogger(__name__)

LOOKS_WHILE_FULL = 10
"""After so many looks a full disk is tried again even when no more space shows (quotas)."""


class Gate:
    """`refusal` is what an append answers now, None when it may go on."""

    def __init__(self, disk: Disk, warning_ratio: float) -> None:
        self._disk = disk
        self._warning_ratio = warning_ratio
        self.refusal: PutStatus | None = None
        self.fenced: str | None = None
        self.disk_full = False
        self.out_of_resources = False
        self._shut = False
        self._follows = False
        self.held = False
        """The log is being cut, see `ReplicaLog.cutting`."""
        self._free_when_full = 0
        self._looks = 0

    def _set(self) -> None:
        waits = self.disk_full or self.out_of_resources
        refused = self._shut or self._follows or self.held or waits or self.fenced is not None
        self.refusal = PutStatus.SERVICE_NOT_AVAILABLE if refused else None

    def shut(self) -> None:
        """The store is being closed."""
        self._shut = True
        self._set()

    def follow(self, follows: bool) -> None:
        """The log is another broker's: nothing is appended by this one (INV-32)."""
        self._follows = follows
        self._set()

    def hold(self, held: bool) -> None:
        """The log is being cut, beside the loop perhaps."""
        self.held = held
        self._set()

    def fence(self, reason: str) -> None:
        """Refuse for good; the first reason stays."""
        if self.fenced is None:
            self.fenced = reason
            _log.critical("store fenced, nothing more is written: %s", reason)
        self._set()

    def failed(self, error: Exception) -> None:
        """A write failed."""
        if not isinstance(error, DiskFull):
            self.fence(str(error))
            return
        if isinstance(error, OutOfResources):
            if not self.out_of_resources:
                _log.error("writes are refused until descriptors and memory are free: %s", error)
            self.out_of_resources = True
            self._set()
            return
        if not self.disk_full:
            _log.error("disk full, writes are refused until there is space: %s", error)
        self.disk_full = True
        self._looks = 0
        self._free_when_full = self._disk.usage()[1]
        self._set()

    def look(self, used: float, try_again: Callable[[], None]) -> None:
        """Refuse above the warning level; take writes again when `try_again` does not raise."""
        if used > self._warning_ratio:
            if not self.disk_full:
                self.failed(DiskFull(f"{used:.0%} of the disk is used"))
            return
        if not self.disk_full and not self.out_of_resources:
            return
        self._looks += 1
        if self.disk_full:
            more = self._disk.usage()[1] > self._free_when_full
            if not more and self._looks % LOOKS_WHILE_FULL:
                return
        try:
            try_again()
        except EnvironmentFault as error:
            self.failed(error)
            return
        self.disk_full = self.out_of_resources = False
        self._set()
        _log.warning("what was short is there again, writes are taken")
