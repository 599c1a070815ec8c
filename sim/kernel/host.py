"""A simulated machine: a clock, a disk, and at most one process."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from sim.kernel.clocks import HostClock
from sim.kernel.disk import BLOCK, PLENTY, SimDisk

if TYPE_CHECKING:
    from sim.kernel.world import World


class Process(Protocol):
    """A process on a host; each start creates a new one."""

    def wake(self, now: int) -> int | None:
        """Do what is due at `now` (ms, monotonic); the next deadline, None for none."""
        ...

    def state_line(self) -> str:
        """One line for a failure report."""
        ...


class Host:
    """A machine; events go to the process they were meant for, and a paused host gets them
    later.
    """

    def __init__(self, world: "World", name: str, boot: Callable[["Host"], Process]) -> None:
        self.world = world
        self.name = name
        self.clock = HostClock()
        self.disk = SimDisk()
        self.disks_lost = 0
        """How often the disk was replaced by an empty one."""
        self.boot = boot
        self.process: Process | None = None
        self.incarnation = 0
        self.starts = 0
        self.connections = 0
        """Numbers the connections it accepted."""
        self.power_cuts = 0
        """Which boot of the machine this is."""
        self.last_boot: int | None = 0
        """`power_cuts` at the start of its last process; None: an unclean one, not told yet."""
        self.machine_up = True
        """Without power nothing answers, not even with a reset."""
        self.paused = False
        self.slow = 1
        """All latencies of its disk are multiplied by this."""
        self.held: list[tuple[int, str, Callable[[], None]]] = []
        """(incarnation, label, call) of what happened while it was paused."""
        self.wake_at_us: int | None = None
        self.wake_ticket = 0
        self.spins = 0

    @property
    def up(self) -> bool:
        return self.process is not None

    @property
    def now(self) -> int:
        """The host's monotonic clock, ms."""
        clock = self.clock
        clock.true_us = self.world.time_us
        return clock.now_ms()

    @property
    def wall(self) -> int:
        self.clock.true_us = self.world.time_us
        return self.clock.wall_ms()

    def quota(self, blocks_left: int | None) -> None:
        """Leave so many free blocks on the disk; None: plenty."""
        total, free = self.disk.usage() if self.disk.is_on else (0, 0)
        self.disk.quota_bytes = (
            PLENTY if blocks_left is None else total - free + blocks_left * BLOCK
        )

    def state_line(self) -> str:
        if self.process is None:
            return f"{self.name}: down"
        mark = " (paused)" if self.paused else ""
        return f"{self.name}#{self.incarnation}{mark}: {self.process.state_line()}"


class HostClocks:
    """A host's two clocks, whichever it has by then, as `base.ports.Clock`."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def now_ms(self) -> int:
        return self._host.now

    def wall_ms(self) -> int:
        return self._host.wall
