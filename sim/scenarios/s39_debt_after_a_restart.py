"""S39 (INV-29): an acting master dies, its master comes back alone, and then the slave does.

The master has old offsets, for nobody was there to tell it more; what the slave had on its disk is
newer, and no consumer is there to make up for it. Expected: the slave says so, and the master takes
it back; nothing that was saved there is overwritten by the master's tables.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

from epochmq.broker.serving.roles import Role
from epochmq.wire import json_tolerant
from sim.acting.inv_29 import Rows, lower
from sim.kernel.violation import Violation
from sim.scenarios.acting_story import ActingStory
from sim.scenarios.script import Step

FILE = "config/consumerOffset.json"


class Story(ActingStory):
    name = "S39"

    def draw(self, sizes: Random) -> None:
        super().draw(sizes)
        self.drawn["flush_consumer_offset_interval"] = 100

    def script(self) -> Iterator[Step]:
        marks = self.world.marks
        yield lambda: marks["covered.committed"] >= 10
        yield self.is_well
        self.world.kill(self.host("a0"))
        yield lambda: self.acts("a1")
        count = marks["covered.committed"]
        yield lambda: marks["covered.committed"] >= count + 10
        clients = [host for host in self.world.hosts.values() if host.name[0] == "p"]
        for client in clients:
            self.world.kill(client)
        yield self.noise(500, 1_000)
        self.world.kill(self.host("a1"))
        yield self.noise(0, 300)
        self.world.start(self.host("a0"))
        yield lambda: self.broker("a0").role is Role.MASTER
        yield self.noise(0, 500)
        saved = self.saved("a1")
        self.world.start(self.host("a1"))
        yield self.noise(100, 100)
        yield self.is_well
        for name in ("a0", "a1"):
            lost = lower(saved, self.broker(name).node.offsets.table)
            if lost:
                raise Violation(
                    "INV-29", f"what the acting master had saved is gone: {lost}", (name,)
                )
        for client in clients:
            self.world.start(client)

    def saved(self, name: str) -> Rows:
        """The offsets on the disk of a dead broker."""
        data = self.host(name).disk.read_file(FILE)
        content: Any = json_tolerant.loads(data or b"{}")
        table = content.get("offsetTable", {})
        return {key: {int(q): n for q, n in row.items()} for key, row in table.items()}
