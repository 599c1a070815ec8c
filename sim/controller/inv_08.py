"""INV-08: the master is in the set, the set is never empty; a new master comes from the last set.

"From the set" includes those who left a set that could not acknowledge any more and so hold
everything (`candidates`, KIP-966). Unclean elections are the operator's choice and are counted.
"""

from epochmq.controller import commands
from epochmq.controller.controller_state import Key
from epochmq.controller.machine import Machine
from sim.kernel.checker import Checker
from sim.kernel.host import Host
from sim.kernel.violation import Violation


class MasterInSet(Checker):
    """After each command, on the first node that applies it."""

    rule = "INV-08"

    def __init__(self) -> None:
        self.applied = 0
        self.groups: dict[Key, tuple[int, frozenset[int], frozenset[int]]] = {}
        """(epoch, members, candidates) after the last command."""
        self.unclean = 0

    def controllers_wiped(self) -> None:
        self.applied = 0
        self.groups.clear()

    def group_applied(self, host: Host, index: int, machine: Machine) -> None:
        if index <= self.applied:
            return
        self.applied = index
        for key, group in sorted(machine.groups.items()):
            if group.elected and not group.members:
                raise Violation(self.rule, f"{key}: the set is empty", (host.name,), (index,))
            if group.master is not None and group.master not in group.members:
                text = f"{key}: master {group.master} is not in {group.members}"
                raise Violation(self.rule, text, (host.name,), (index,))
            before = self.groups.get(key)
            if before is not None and group.epoch > before[0] > 0:
                if group.master not in before[1] | before[2] and not self.unclean:
                    text = f"{key}: master {group.master} came from outside {sorted(before[1])}"
                    raise Violation(self.rule, text, (host.name,), (index,))
            self.groups[key] = (group.epoch, frozenset(group.members), frozenset(group.candidates))

    def machine_applied(
        self, _host: Host, _index: int, _term: int, data: bytes, _state: object
    ) -> None:
        """Comes before `group_applied` of the same command."""
        if data:
            event = commands.decode(data)
            if isinstance(event, commands.ElectMaster) and event.unclean:
                self.unclean += 1
