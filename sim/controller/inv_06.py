"""INV-06: one master an epoch - no two brokers ever act as master under one master epoch."""

from epochmq.broker.group.membership_effects import BecomeMaster
from sim.controller.member import Member
from sim.kernel.checker import Checker
from sim.kernel.violation import Violation


class OneMaster(Checker):
    """An epoch belongs to one host, and to one process of it: a writing session has its own."""

    rule = "INV-06"

    def __init__(self) -> None:
        self.masters: dict[int, tuple[str, int]] = {}

    def became_master(self, member: Member, switch: BecomeMaster) -> None:
        mine = (member.host.name, member.host.incarnation)
        first = self.masters.setdefault(switch.epoch, mine)
        if first != mine:
            text = f"two masters of epoch {switch.epoch}: {first[0]}#{first[1]}"
            raise Violation(self.rule, text, (first[0], f"{mine[0]}#{mine[1]}"))
