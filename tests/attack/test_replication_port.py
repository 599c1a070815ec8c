"""Strangers at a master's replication port, in the name of its replicas."""

import asyncio
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.broker.group.group import InProcess, bodies, put_until_stored, until
from tests.replication.brokers import unconfirmed_count


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[InProcess]:
    found = InProcess(tmp_path)
    await found.start(all_ack_in_sync_state_set=True, min_in_sync_replicas=2)
    yield found
    await found.stop()


async def claim(port: int, number: int) -> bytes:
    """Say hello as that replica and acknowledge everything; what the master says until it closes.

    Empty when the connection was turned away.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(struct.pack(">ihhq", 1, 0, 0, number))
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_nobody_takes_over_the_link_of_a_living_replica(group: InProcess) -> None:
    master = await group.whole()
    replicas = [one for one in group.brokers if one is not master]
    await put_until_stored(master, b"0")
    port = master.node.options.ha_listen_port
    for number in range(1, 6):
        for replica in replicas:
            assert await claim(port, replica.node.group_position.own_id) == b""
        await put_until_stored(master, b"%d" % number)
    assert len(master.node.group_position.members) == 3
    for replica in replicas:
        await until(lambda replica=replica: len(bodies(replica)) == 6)


async def test_an_id_that_no_controller_knows_gets_nothing_and_causes_nothing(
    group: InProcess,
) -> None:
    """And a replica that registers now is let in."""
    master = await group.whole()
    await put_until_stored(master, b"0")
    port = master.node.options.ha_listen_port
    before = master.node.group_position.members, master.node.group_position.set_epoch
    for number in (7, 77, 2**31 - 1, 2**31 + 5):
        assert await claim(port, number) == b""
        replication = master.node.replica.replication.node.master  # type: ignore[union-attr]
        assert number not in replication.in_sync.replicas
    assert (master.node.group_position.members, master.node.group_position.set_epoch) == before
    await put_until_stored(master, b"1")
    group.brokers.append(
        await group.start_broker(3, all_ack_in_sync_state_set=True, min_in_sync_replicas=2)
    )
    await group.whole(4)
    newcomer = group.brokers[-1]
    await until(lambda: bodies(newcomer) == [b"0", b"1"])


async def test_while_no_controller_answers_a_stranger_waits_and_members_come_back(
    group: InProcess,
) -> None:
    master = await group.whole()
    port = master.node.options.ha_listen_port
    await group.cut_off(0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(struct.pack(">ihhq", 1, 0, 0, 77))
    replication = master.node.replica.replication.node  # type: ignore[union-attr]
    await until(lambda: unconfirmed_count(replication.master) == 1)
    assert sorted(replication.master.in_sync.replicas) == sorted(master.node.group_position.members)
    await group.let_in(0)
    assert await reader.read() == b""
    writer.close()
