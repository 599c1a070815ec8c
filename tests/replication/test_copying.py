"""Bytes of the master's log that are received right into it, and damaged bytes, and no role."""

from tests.replication.plain.test_plain_node import Plain, copied

from epochmq.replication.link import Chunk
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


def test_without_a_role_nothing_comes_in() -> None:
    node = Plain().node
    node.dialled(0)
    node.received(b"garbage", 0)
    node.direct_received(8, 0)
    node.hung_up(0)
    assert node.direct_space() is None
    assert (node.reading, node.established, node.suspended) == (False, False, False)
    assert node.pop_effects() == []
