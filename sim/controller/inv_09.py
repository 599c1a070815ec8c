"""INV-09: broker ids are never used for another identity."""

from epochmq.controller.machine import Machine
from sim.kernel.checker import Checker
from sim.kernel.host import Host
from sim.kernel.violation import Violation


class OneIdentity(Checker):
    """An id belongs to one host's disk; and in the machine to one check code for ever."""

    rule = "INV-09"

    def __init__(self) -> None:
        self.hosts: dict[int, str] = {}
        self.codes: dict[tuple[str, str, int], str] = {}
        self.applied = 0

    def controllers_wiped(self) -> None:
        """They take brokers back by their ids, which stay these hosts'."""
        self.applied = 0
        self.codes.clear()

    def identity_given(self, name: str, broker_id: int) -> None:
        first = self.hosts.setdefault(broker_id, name)
        if first != name:
            raise Violation(self.rule, f"two brokers have id {broker_id}", (first, name))

    def group_applied(self, host: Host, index: int, machine: Machine) -> None:
        if index <= self.applied:
            return
        self.applied = index
        for key, group in sorted(machine.groups.items()):
            for number, replica in sorted(group.replicas.items()):
                code = self.codes.setdefault((*key, number), replica.check_code)
                if code != replica.check_code:
                    text = f"{key}: id {number} changed hands"
                    raise Violation(self.rule, text, (host.name,), (index,))
