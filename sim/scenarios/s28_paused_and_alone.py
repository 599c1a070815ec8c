"""S28: a process is paused past its lease, where messages are acknowledged before all have them.

What all members hold needs no lease (ADR 0044); this policy does, so the woken master must look at
its lease before the next message. Expected: it refuses the message that waited for it meanwhile.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from sim.group.clients import Client
from sim.kernel.world import MS
from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S28"
    minimum = 1

    def draw_sizes(self, sizes: Random) -> None:
        super().draw_sizes(sizes)
        self.replication = replace(self.replication, all_ack=False, in_sync_replicas=1)

    def script(self) -> Iterator[Step]:
        yield lambda: len(self.members()) == 3
        a = self.master()
        self.telling = False
        # Nothing that is acknowledged may depend on this master alone when it goes.
        yield 1000 * MS
        yield lambda: len({b.store.pointers.confirmed for b in self.brokers()}) == 1
        yield lambda: self.tail(a) == 0
        self.cut(a, (*self.others(a), *self.controllers))  # nobody tells it before it is asked
        self.world.pause(self.host(a))
        yield lambda: self.is_master(*self.others(a))
        self.send_to(a)
        yield self.noise(0, 100)
        self.world.resume(self.host(a))
        yield self.noise(50, 200)
        self.mend()
        yield self.noise(100, 400)

    def send_to(self, name: str) -> None:
        host = self.clients[0]

        def act() -> None:
            if isinstance(host.process, Client):
                host.process.target = self.cluster.broker_names.index(name)
                host.process.send()

        self.world.after(0, "send", act, host)
