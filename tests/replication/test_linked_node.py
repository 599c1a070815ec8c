"""Log that is received directly into the store, damaged bytes, cuts off the loop, no role."""

import pytest
from tests.replication.plain.test_plain_node import Plain, connect, copied

from epochmq.replication.link import Chunk
from epochmq.replication.linked_node import run_inline
from epochmq.replication.replication_effects import OWN_LINK, Close, Trouble


def begun() -> tuple[Plain, Plain, Chunk]:
    """A master with some messages, a slave that has the head of the first piece of them."""
    master, slave = Plain(), Plain()
    master.node.become_master(0, sync=True)
    master.write(3)
    slave.node.become_slave(0)
    master.node.link_accepted(1, "slave", 0)
    slave.node.dialled(0)
    for part in slave.sent(OWN_LINK)[0]:
        master.node.link_received(1, part, 0)
    chunk = master.node.next_chunk(1, 0)
    assert chunk is not None
    slave.node.received(chunk.head, 0)
    return master, slave, chunk


def test_bytes_are_received_right_into_the_log() -> None:
    master, slave, chunk = begun()
    assert slave.node.direct_space(chunk.size + 1) is None
    space = slave.node.direct_space(chunk.size)
    assert space is not None
    space[: chunk.size] = master.store.slice(chunk.offset, chunk.size)
    slave.node.direct_received(chunk.size, 0)
    assert slave.node.established
    while (chunk := master.node.next_chunk(1, 0)) is not None:
        body = bytes(master.store.slice(chunk.offset, chunk.size))
        slave.node.received(chunk.head + body, 0)
    copied(master, slave)


def test_damaged_bytes_end_the_connection() -> None:
    _, slave, chunk = begun()
    space = slave.node.direct_space(chunk.size)
    assert space is not None
    space[: chunk.size] = b"\xff" * chunk.size
    slave.node.direct_received(chunk.size, 0)
    trouble, close = slave.node.pop_effects()[-2:]
    assert isinstance(trouble, Trouble)
    assert isinstance(close, Close)
    assert (trouble.text, close.link) == (close.reason, OWN_LINK)
    assert not slave.node.established


@pytest.mark.parametrize("direct", [True, False])
def test_damaged_bytes_are_cut_outside_the_event_loop(direct: bool) -> None:
    """No sync on the loop (F8); the next connection waits for the end of the cut."""
    master, slave, chunk = begun()
    slave.held, whole = [], slave.store.whole_end
    slave.store.raw_space(1)  # creates the first file
    on_loop: list[str] = []
    slave.disk.on_operation = lambda _number, what: on_loop.append(what)
    damaged = bytearray(master.store.slice(chunk.offset, chunk.size))
    damaged[4] ^= 1  # no record begins like this
    if direct:
        space = slave.node.direct_space(chunk.size)
        assert space is not None
        space[: chunk.size] = damaged
        slave.node.direct_received(chunk.size, 0)
    else:
        slave.node.received(damaged, 0)
    assert any(isinstance(effect, Close) for effect in slave.node.pop_effects())
    assert not [what for what in on_loop if what.startswith("sync")]
    slave.disk.on_operation = None
    slave.node.dialled(0)
    assert not slave.node.reading
    assert slave.node.pop_effects() == []  # nothing is reported before the cut has ended
    assert slave.run_held() >= 2
    assert slave.node.reading
    assert slave.store.pointers.appended == slave.store.whole_end == whole
    assert slave.store.verify().problems == []
    slave.held = None
    connect(master, slave, 2)
    copied(master, slave)


def test_a_plain_slave_cuts_an_incomplete_record_outside_the_event_loop() -> None:
    master, slave, chunk = begun()
    slave.node.received(bytes(master.store.slice(chunk.offset, chunk.size - 5)), 0)
    slave.node.hung_up(0)
    slave.held = []
    on_loop: list[str] = []
    slave.disk.on_operation = lambda _number, what: on_loop.append(what)
    slave.node.dialled(0)
    assert not [what for what in on_loop if what.startswith("sync")]
    slave.disk.on_operation = None
    assert not slave.node.reading
    assert slave.run_held() >= 2
    assert slave.node.reading
    assert slave.store.pointers.appended == slave.store.whole_end


@pytest.mark.parametrize("stops_after", range(4))
def test_a_cut_goes_on_when_the_role_or_the_link_ends(stops_after: int) -> None:
    master, slave, chunk = begun()
    slave.node.received(bytes(master.store.slice(chunk.offset, chunk.size - 5)), 0)
    slave.node.hung_up(0)
    slave.held = []
    slave.node.dialled(0)
    for _ in range(min(stops_after, len(slave.held))):
        run_inline(*slave.held.pop(0))
    slave.node.hung_up(0)
    slave.node.leave(0)
    done: list[bool] = []
    slave.node.when_shaped(lambda: done.append(True))
    slave.run_held()
    assert done == [True]
    assert slave.store.pointers.appended == slave.store.whole_end
    slave.held = None
    connect(master, slave, 2)
    copied(master, slave)


def test_without_a_role_nothing_comes_in() -> None:
    node = Plain().node
    node.dialled(0)
    node.received(b"garbage", 0)
    node.direct_received(8, 0)
    node.hung_up(0)
    assert node.direct_space() is None
    assert (node.reading, node.established, node.suspended) == (False, False, False)
    assert node.pop_effects() == []
