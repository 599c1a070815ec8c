"""S08 (rocketmq#3015, #1155): an acknowledgement beyond the master's end makes all replicated.

A stranger speaks in the name of a follower that is cut off. Expected: what is not between 0 and the
master's end cuts the link, and counts for nothing.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from epochmq.replication.frames import Hello, encode_ack, encode_hello
from sim.group.brokers import accept_link
from sim.kernel.host import Host
from sim.kernel.net import Ends, Stream
from sim.kernel.plan import Plan
from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Idle:
    """A process that does nothing by itself."""

    def wake(self, now: int) -> int | None:
        return None

    def state_line(self) -> str:
        return "a stranger"


class Story(Base):
    name = "S08"
    minimum = 1

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.stranger: Host = self.world.add_host("x", lambda _host: Idle())

    def draw_sizes(self, sizes: Random) -> None:
        """The follower that is cut off stays in the set for as long as the story takes."""
        super().draw_sizes(sizes)
        self.replication = replace(self.replication, not_caught_up_ms=5000, lost_link_grace_ms=5000)

    def script(self) -> Iterator[Step]:
        a = self.master()
        b, c = self.others(a)
        number = self.broker(b).membership.broker_id
        assert number is not None
        self.cut(b, (a, c))
        target = self.host(a)

        def opened(stream: Stream) -> None:
            stream.send(0, encode_hello(Hello(False, False, number)))
            stream.on_bytes[0] = lambda _reply: stream.send(0, encode_ack(1 << 40))

        yield self.noise(150, 200)  # a link that has just answered is not given up at all
        self.cluster.net.connect(self.stranger, target, accept_link, Ends(opened, lambda: None))
        yield self.noise(1050, 1150)  # one that is silent is given up after a second
        self.cut((a, c), self.controllers)
        self.world.power_off(target)
        self.cut(c, b)
        yield self.noise(2000, 2500)
