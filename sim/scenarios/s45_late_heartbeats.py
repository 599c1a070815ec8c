"""S45: a master is killed while it is cut off; its heartbeats arrive over a half-open connection.

The new process of the broker is elected and holds a lease when they arrive, and its own connections
have just been reset. Expected: what the dead process said voids no lease.
"""

from collections.abc import Iterator

from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S45"
    count = 1
    minimum = 1

    def script(self) -> Iterator[Step]:
        (a,) = self.cluster.broker_names
        self.cut(a, self.controllers)
        yield self.noise(100, 300)
        self.world.kill(self.host(a))
        yield self.noise(10, 100)
        self.world.start(self.host(a))
        # What was sent in vain for longer is sent again later.
        self.cluster.net.weather.resend_us = self.noise(200, 1200)
        self.mend()
        yield lambda: self.is_master(a)
        for _ in range(12):
            yield self.noise(20, 200)
            self.reset_living(a)

    def reset_living(self, name: str) -> None:
        """Break the connections of the process that runs now, and none of one before."""
        for stream in list(self.cluster.net.streams):
            if self.host(name) in stream.hosts and not any(stream.gone):
                stream.reset()
