"""S21 (defects 3.2, part 2.14): a new leader knows no heartbeats and deposes a healthy master.

Expected: who gains leadership presumes every broker alive for its whole time, and every master
leased; the epoch stays, whether the leader dies or all controllers restart at once.
"""

from collections.abc import Iterator

from sim.controller.controllers import ControllerProcess
from sim.kernel.violation import Violation
from sim.scenarios.script import Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S21"

    def leader(self) -> str | None:
        for name in self.controllers:
            process = self.host(name).process
            if isinstance(process, ControllerProcess) and process.node.core.context.leads:
                return name
        return None

    def script(self) -> Iterator[Step]:
        a, epoch = self.master(), self.group().epoch
        for _ in range(2):
            leader = self.leader()
            if leader is not None:
                self.world.kill(self.host(leader))
            yield lambda old=leader: self.leader() not in (None, old)  # type: ignore[misc]
            if leader is not None:
                self.world.start(self.host(leader))
            yield self.noise(50, 500)
        for name in self.controllers:
            self.world.kill(self.host(name))
        yield self.noise(10, 300)
        for name in self.controllers:
            self.world.start(self.host(name))
        yield lambda: self.leader() is not None
        yield lambda: self.is_master(a)
        if self.group().epoch != epoch:
            text = f"epoch {epoch} became {self.group().epoch}, and the master never stopped"
            raise Violation("INV-35", text, (a,))
