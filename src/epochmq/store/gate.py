"""Whether the store accepts writes: not if fenced, closed, following, or short of resources.

A full disk, or a lack of file descriptors or memory, is temporary: the store refuses writes until
the resource is available. Any other failed write or sync is final, since memory and device may
differ from then on (fsyncgate).
"""

import logging
from collections.abc import Callable

from epochmq.base.errors import DiskFull, EnvironmentFault, OutOfResources
from epochmq.base.ports import Disk
from epochmq.store.draft import PutStatus

_log = logging.getLogger(__name__)

LOOKS_WHILE_FULL = 10
"""While the disk is full, every so many checks a write is tried even if free space did not grow
(disk quotas).
"""


class Gate:
    """Decides on appends: `refusal` is the status that refuses one, None if appends are
    accepted.
    """

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
        """Whether the log is being cut, see `ReplicaLog.cutting`."""
        self._free_when_full = 0
        self._looks = 0

    def _set(self) -> None:
        waits = self.disk_full or self.out_of_resources
        refused = self._shut or self._follows or self.held or waits or self.fenced is not None
        self.refusal = PutStatus.SERVICE_NOT_AVAILABLE if refused else None

    def shut(self) -> None:
        """Refuse writes because the store is being closed."""
        self._shut = True
        self._set()

    def follow(self, follows: bool) -> None:
        """Refuse appends while the broker follows a master's log (INV-32)."""
        self._follows = follows
        self._set()

    def hold(self, held: bool) -> None:
        """Refuse writes while the log is being cut, possibly outside the event loop."""
        self.held = held
        self._set()

    def fence(self, reason: str) -> None:
        """Refuse writes for good; the first reason is kept."""
        if self.fenced is None:
            self.fenced = reason
            _log.critical("store fenced, nothing more is written: %s", reason)
        self._set()

    def failed(self, error: Exception) -> None:
        """Handle a failed write: note the lack of space or resources, or fence the store."""
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
        """Refuse writes above the warning level; accept them again if `try_again` does not raise.

        `used` is the used share of the disk (0 to 1).
        """
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
