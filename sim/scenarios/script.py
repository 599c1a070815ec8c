"""A script in place of drawn faults: it waits and strikes, with noise by the seed.

A script is a generator: what it does between two yields happens at one moment; it yields
microseconds to pass, or a condition to wait for. A seed moves times, sizes and the workload; when
its condition is not met a story does not come about, which is marked and counted.
"""

from collections.abc import Callable, Iterator

from sim.kernel.host import Host
from sim.kernel.world import MS, World

Step = int | Callable[[], bool]


class Missed(Exception):
    """The story's situation did not come about under this seed."""


class Scripted:
    """The first base of a story, a kind of history being the second."""

    name = ""
    world: World
    is_well: Callable[[], bool]
    """The history's: the story may begin."""
    telling = True
    """Whether it goes on."""

    def script(self) -> Iterator[Step]:
        """The story."""
        raise NotImplementedError

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Let time pass; `Missed` when it takes too long."""
        raise NotImplementedError

    def busy(self) -> bool:
        return self.telling

    def storm(self) -> None:
        world = self.world
        try:
            self.wait_for(self.is_well)
            self.settle_in()
            for step in self.script():
                if isinstance(step, int):
                    world.run_until(world.time_us + step)
                else:
                    self.wait_for(step)
            world.mark(f"covered.{self.name}")
        except Missed:
            world.mark(f"missed.{self.name}")
        self.telling = False

    def settle_in(self) -> None:
        """What passes before the first step."""

    # Words of scripts ---------------------------------------------------------------------------

    def noise(self, low_ms: int, high_ms: int) -> int:
        """Microseconds; the seed decides."""
        return self.world.streams["story"].randint(low_ms * MS, high_ms * MS)

    def host(self, name: str) -> Host:
        return self.world.hosts[name]
