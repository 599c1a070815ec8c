"""S18 (rocketmq#10578): the longer log loses, as a difference of 3 GiB does not fit an int.

Brokers with logs of all lengths meet controllers that know nothing. Expected: the highest epoch,
then the longest log, then the lower id; equals are not dropped.
"""

import msgspec

from epochmq.controller.machine import Machine
from sim.controller.controller_world import ControllerHistory
from sim.controller.light_broker import LightBroker
from sim.kernel.checker import Checker
from sim.kernel.host import Host
from sim.kernel.plan import Plan
from sim.kernel.violation import Violation
from sim.kernel.world import World

STEPS = (0, 1, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, 1 << 32, 3 << 30)


class LongestWins(Checker):
    """Judges the first election."""

    rule = "INV-08"

    def __init__(self, history: "Story") -> None:
        self.history = history
        self.judged = False

    def group_applied(self, host: Host, _index: int, machine: Machine) -> None:
        for group in machine.groups.values():
            if group.elected and not self.judged:
                self.judged = True
                self.judge(host.world, group.master)

    def judge(self, world: World, master: int | None) -> None:
        logs = {}
        for name in self.history.cluster.broker_names:
            process = world.hosts[name].process
            if isinstance(process, LightBroker):
                logs[process.membership.broker_id] = process.log
        if master not in logs or logs[master] < max(logs.values()):
            raise Violation(self.rule, f"broker {master} is elected, the logs are {logs}")


class Story(ControllerHistory):
    """No faults: the logs are the story."""

    window_ms = 1500

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.faults = []
        chance = self.world.streams["story"]
        for name in self.cluster.broker_names:
            log = (chance.choice((4, 5, 5, 5)), 10_000 + chance.choice(STEPS))
            self.world.hosts[name].disk.write_file("log", msgspec.json.encode(log))
        self.world.check_with([LongestWins(self)])

    def play(self) -> None:
        super().play()
        self.world.mark("covered.S18")
