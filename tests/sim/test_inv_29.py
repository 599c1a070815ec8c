"""Whose offsets a master must have that comes online, and whose table may go back (INV-29)."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from sim.acting.acting_broker import BrokerProcess
from sim.acting.inv_29 import OffsetsStay
from sim.kernel.violation import Violation
from sim.kernel.world import MS, World

from epochmq.broker.consume.consumer_offsets import ConsumerOffsets
from epochmq.broker.group.metadata_sync import FetchTable
from epochmq.broker.group.replicated_tables import CopiedTable
from epochmq.broker.serving.roles import Role
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import request

NOT_ACTIVE_MS = 600
ASKS = FetchTable("", CopiedTable.OFFSETS, request(RequestCode.GET_ALL_CONSUMER_OFFSET))


class Group:
    """A master that returns, and a slave that was cut off lately."""

    def __init__(self) -> None:
        self.world = World(1)
        self.world.time_us = 5_000 * MS
        self.world.check_with([OffsetsStay(self.world)])
        self.master, self.slave = Member(self, "a0"), Member(self, "a1")

    def brokers(self, _group: str) -> Iterator[BrokerProcess]:
        yield from (self.master, self.slave)

    def online_beside(self, _broker: BrokerProcess) -> Iterator[BrokerProcess]:
        yield from [self.slave] if self.slave.settled else []

    def unheard(self, _name: str) -> bool:
        return True

    def master_comes(self) -> None:
        self.master._took_role(lambda _role: None, Role.MASTER)

    def slave_asks(self) -> None:
        self.world.time_us += MS
        self.slave._asks(lambda _now: [ASKS], 0)

    def slave_copies(self, offset: int) -> None:
        self.world.time_us += MS
        offsets = self.slave.node.offsets
        content = {"offsetTable": {"T@G": {"0": offset}}}
        self.slave._adopted(offsets.adopt, content, whole=True)


class Member(BrokerProcess):
    """A broker that nothing runs on."""

    role = Role.PRE_ONLINE

    def __init__(self, group: Any, name: str) -> None:
        self.history, self.world, self.group = group, group.world, name[0]
        self.host: Any = SimpleNamespace(name=name)
        self.loop: Any = SimpleNamespace(world=self.world, fail=lambda _found: None)
        self.settled, self._asked_us = True, 0
        self._unheard_us, self._handed_over_us = -1, -self.world.time_us
        options = SimpleNamespace(broker_not_active_timeout_millis=NOT_ACTIVE_MS)
        node = SimpleNamespace(offsets=ConsumerOffsets(), options=options)
        self.watched: Any = SimpleNamespace(node=node)


def test_what_a_slave_copies_does_not_go_back() -> None:
    group = Group()
    group.slave_copies(2)
    with pytest.raises(Violation, match="copying sets back"):
        group.slave_copies(1)


def test_a_slave_that_a_master_came_without_copies_its_table_first() -> None:
    """Also when an answer of the process before lies in its socket still."""
    group = Group()
    group.slave_asks()
    group.master_comes()
    assert not group.slave.settled
    group.slave_copies(2)
    group.slave_asks()
    group.slave_copies(1)
    assert group.slave.settled
    with pytest.raises(Violation, match="copying sets back"):
        group.slave_copies(0)


def test_a_slave_that_handed_over_is_known() -> None:
    group = Group()
    group.slave.node.offsets.commit("G", "T", 0, 1)
    group.slave._handed_over_us = group.world.time_us
    group.world.time_us += NOT_ACTIVE_MS // 2 * MS
    with pytest.raises(Violation, match="online without"):
        group.master_comes()
    group.world.time_us += 1
    group.master_comes()
