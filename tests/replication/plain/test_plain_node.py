"""A plain master and its slave with real stores."""

from collections.abc import Callable
from dataclasses import replace

from sim.kernel.disk import SimDisk
from tests.store.replicas import fill, log_bytes, opened
from tests.store.world import SMALL

from epochmq.replication.ack_policy import AckStatus
from epochmq.replication.linked_node import Then, run_inline
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.plain.plain_node import PlainNode
from epochmq.replication.replication_effects import Close, SendData, Trouble
from epochmq.store.options import StoreOptions

OPTIONS = ReplicationOptions(in_sync_replicas=2, transfer_batch_bytes=700)


class Plain:
    def __init__(self, disk: SimDisk | None = None, store: StoreOptions = SMALL) -> None:
        self.disk = disk or SimDisk()
        self.store = opened(self.disk, store)
        self.held: list[tuple[Callable[[], None], Then]] | None = None
        """Blocking steps that the test runs by `run_held`; None: they run at once."""
        self.node = PlainNode(self.store, OPTIONS, self._run_blocking)
        self.troubles: list[str] = []

    def _run_blocking(self, call: Callable[[], None], then: Then) -> None:
        if self.held is None:
            run_inline(call, then)
        else:
            self.held.append((call, then))

    def run_held(self) -> int:
        """Run the blocking steps, also those that follow; return how many there were."""
        count = 0
        while self.held:
            run_inline(*self.held.pop(0))
            count += 1
        return count

    def write(self, count: int, seed: int = 1) -> None:
        fill(self.store, count, seed)
        self.node.appended(0)

    def sent(self, link: int) -> tuple[list[bytes], bool]:
        """(what is to be sent on `link`, whether it is to be closed)."""
        out, close = [], False
        for effect in self.node.pop_effects():
            if isinstance(effect, SendData):
                out.append(effect.data)
            elif isinstance(effect, Close):
                close = close or effect.link == link
            elif isinstance(effect, Trouble):
                self.troubles.append(effect.text)
        return out, close


def connect(master: Plain, slave: Plain, link: int, upto: int | None = None) -> None:
    """Carry everything both ways until nothing moves; `upto` ends it inside the log."""
    slave.node.become_slave(0)
    for side, number in ((master, link), (slave, 0)):
        side.sent(number)
    master.node.link_accepted(link, "slave", 0)
    slave.node.dialled(0)
    while True:
        data, closed = slave.sent(0)
        for part in data:
            master.node.link_received(link, part, 0)
        refused = master.sent(link)[1]
        chunk = None if closed or refused else master.node.next_chunk(link, 0)
        if chunk is None and not data:
            break
        if chunk is not None:
            body = bytes(master.store.slice(chunk.offset, chunk.size))
            if upto is not None and chunk.offset + chunk.size > upto:
                slave.node.received(chunk.head + body[: upto - chunk.offset], 0)
                slave.node.hung_up(0)
                master.node.link_closed(link, 0)
                return
            slave.node.received(chunk.head + body, 0)


def copied(master: Plain, slave: Plain) -> None:
    """The slave has everything from the file in which it began (the last one, then)."""
    start = slave.store.pointers.start
    assert log_bytes(slave.store) == log_bytes(master.store)[start:] != b""
    assert slave.store.verify().problems == []


def test_a_slave_is_its_masters_copy_and_may_be_read() -> None:
    master, slave = Plain(), Plain()
    master.node.become_master(0, sync=True)
    master.write(10)
    connect(master, slave, 1)
    copied(master, slave)
    assert slave.store.pointers.start == master.store.file_bytes
    assert slave.store.pointers.readable == slave.store.pointers.appended


def test_sync_master_is_acknowledged_by_its_slave() -> None:
    master, slave = Plain(), Plain()
    master.node.become_master(0, sync=True)
    told: list[AckStatus] = []
    master.write(3)
    master.node.when_acked(master.store.pointers.appended, 3000, told.append, 0)
    assert told == []
    connect(master, slave, 1)
    assert told == [AckStatus.ACKED]
    assert master.node.refusal(0) is None


def test_a_slave_goes_on_inside_a_record() -> None:
    master, slave = Plain(), Plain()
    master.node.become_master(0, sync=False)
    master.write(10)
    connect(master, slave, 1, upto=master.store.pointers.appended // 2 + 3)
    connect(master, slave, 2)
    copied(master, slave)


def test_a_slave_that_was_killed_or_lost_power_goes_on() -> None:
    master, slave = Plain(), Plain()
    master.node.become_master(0, sync=False)
    master.write(10)
    connect(master, slave, 1)
    slave = Plain(slave.disk.crash(3))
    master.write(5, seed=2)
    connect(master, slave, 2)
    copied(master, slave)


def test_a_master_that_lost_its_tail_says_so_and_sends_nothing() -> None:
    master, slave = Plain(), Plain()
    master.node.become_master(0, sync=False)
    master.write(10)
    connect(master, slave, 1)
    before = log_bytes(slave.store)
    other = Plain()
    other.node.become_master(0, sync=False)
    other.write(2)
    connect(other, slave, 1)
    assert log_bytes(slave.store) == before
    assert "compare" in other.troubles[0]


def test_without_a_role() -> None:
    idle = Plain()
    idle.node.link_accepted(1, "somebody", 0)
    assert idle.sent(1) == ([], True)
    told: list[AckStatus] = []
    idle.node.when_acked(0, 0, told.append, 0)
    assert told == [AckStatus.FENCED]
    assert idle.node.refusal(0) is AckStatus.FENCED
    assert idle.node.statistics() == {}
    assert not idle.node.reading


def test_sync_flush_on_both() -> None:
    sync = replace(SMALL, sync_flush=True)
    master, slave = Plain(store=sync), Plain(store=sync)
    slave.node.options = replace(OPTIONS, sync_before_ack=True)
    master.node.become_master(0, sync=True)
    told: list[AckStatus] = []
    master.write(3)
    master.node.when_acked(master.store.pointers.appended, 3000, told.append, 0)
    connect(master, slave, 1)
    slave.store.sync()
    for data in slave.sent(0)[0]:
        master.node.link_received(1, data, 0)
    assert told == []
    master.store.sync()
    assert told == [AckStatus.ACKED]
