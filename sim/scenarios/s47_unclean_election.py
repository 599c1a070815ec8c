"""S47: an operator lets a replica that is behind become master; those with more join it again.

Expected: they give up what the new master does not hold, and keep it in `cut/`; nothing is lost but
what was acknowledged beyond the new master's log; the set grows to all three again.
"""

from collections.abc import Iterator

from epochmq.wire.codes import RequestCode
from epochmq.wire.command import request
from sim.controller.controllers import ControllerProcess
from sim.controller.member import CLUSTER, GROUP
from sim.kernel.violation import Violation
from sim.kernel.world import MS
from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base
from sim.store.store_shell import log_span


class Story(Base):
    name = "S47"
    minimum = 1

    def script(self) -> Iterator[Step]:
        yield lambda: len(self.members()) == 3
        a = self.master()
        b, c = self.others(a)
        number = self.broker(c).membership.broker_id
        self.world.kill(self.host(c))
        yield lambda: len(self.group().members) == 2
        yield from self.more_acked()
        if self.world.streams["story"].randrange(2):
            self.world.kill(self.host(b))
            yield lambda: len(self.group().members) == 1
            yield from self.more_acked()
        store = self.broker(a).store
        confirmed = store.pointers.confirmed
        tail = log_span(store, max(store.pointers.start, confirmed - 200), confirmed)
        self.world.kill(self.host(a))
        self.world.kill(self.host(b))
        yield 100 * MS
        self.world.start(self.host(c))
        yield self.noise(100, 400)
        if self.is_master(c):
            raise Violation("INV-20", "elected without consent", (c,))
        for _ in range(50):
            self.elect(int(number or 0))
            yield 50 * MS
            if self.is_master(c):
                break
        yield lambda: self.is_master(c)
        yield from self.more_acked()
        for name in (a, b):
            self.world.start(self.host(name))
            yield self.noise(0, 400)
        yield lambda: len(self.members()) == 3
        disk = self.host(a).disk
        kept = b"".join(disk.read_file(f"cut/{name}") or b"" for name in sorted(disk.list("cut")))
        if tail not in kept:
            raise Violation("INV-15", "what was cut is not kept", (a,), (confirmed,))

    def more_acked(self) -> Iterator[Step]:
        acked = len(self.oracle.acked)
        yield lambda: len(self.oracle.acked) > acked + 4
        yield self.noise(10, 50)

    def elect(self, number: int) -> None:
        """The operator agrees to a loss."""
        ext = {
            "clusterName": CLUSTER,
            "brokerName": GROUP,
            "brokerId": str(number),
            "designateElect": "true",
            "uncleanElect": "true",
            "invokeTime": "1",
        }
        for name in self.controllers:
            process = self.host(name).process
            if isinstance(process, ControllerProcess) and process.node.core.context.leads:
                process._tokens += 1
                command = request(RequestCode.CONTROLLER_ELECT_MASTER, ext)
                process.node.request(process._tokens, command, 0, process.host.now)
                process.pump()
