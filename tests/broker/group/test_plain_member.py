"""Master and slave without controllers, as before RIP-44, and their way into controller mode."""

from typing import Any

import pytest
from tests.broker.client import RawClient
from tests.broker.group.group import (
    InProcess,
    bodies,
    log_of,
    put,
    put_under_lease,
    put_until_stored,
    until,
)

from epochmq.base.errors import PortInUse
from epochmq.broker.server.broker_server import Broker
from epochmq.broker.serving.roles import Role
from epochmq.runtime.own_host import free_port
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command

PLAIN: dict[str, Any] = {"enable_controller_mode": False, "controller_addr": ""}
SLAVE: dict[str, Any] = {**PLAIN, "broker_role": "SLAVE", "broker_id": 1}


async def pair(group: InProcess, **more: Any) -> tuple[Broker, Broker]:
    master = await group.start_broker(0, **PLAIN, **more)
    group.brokers.append(master)
    slave = await group.start_broker(1, **SLAVE)
    group.brokers.append(slave)
    return master, slave


async def test_a_slave_copies_log_and_metadata_and_has_its_id(group: InProcess) -> None:
    master, slave = await pair(group)
    assert (master.node.serving.role, slave.node.serving.role) == (Role.MASTER, Role.SLAVE)
    await put_until_stored(master, b"one")
    await until(lambda: bodies(slave) == [b"one"])
    assert log_of(slave) == log_of(master)
    await until(lambda: slave.node.topics.get("T") == master.node.topics.get("T"))
    assert group.route() == {0: master.node.address, 1: slave.node.address}
    assert await put(slave) == ResponseCode.SERVICE_NOT_AVAILABLE


async def test_a_slave_that_came_first_finds_its_master(group: InProcess) -> None:
    slave = await group.start_broker(1, **SLAVE)
    group.brokers.append(slave)
    master = await group.start_broker(0, **PLAIN)
    group.brokers.append(master)
    await put_until_stored(master, b"one")
    await until(lambda: bodies(slave) == [b"one"])


async def test_a_slave_that_restarts_goes_on(group: InProcess) -> None:
    master, slave = await pair(group)
    await put_until_stored(master, b"one")
    await until(lambda: bodies(slave) == [b"one"])
    await slave.stop(grace_ms=0)
    await put_until_stored(master, b"two")
    again = await group.start_broker(1, **SLAVE)
    group.brokers[1] = again
    await until(lambda: bodies(again) == [b"one", b"two"])
    assert log_of(again) == log_of(master)


async def test_a_sync_master_waits_for_its_slave(group: InProcess) -> None:
    waits = {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2, "slave_timeout": 200}
    master, slave = await pair(group, **waits)
    await put_until_stored(master, b"one")
    assert slave.node.store.pointers.appended == master.node.store.pointers.appended
    await slave.stop(grace_ms=0)
    late = await put(master, b"two")
    assert late in (ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SYSTEM_ERROR)


async def test_how_many_replicas_a_send_waits_for_changes_while_the_broker_runs(
    group: InProcess,
) -> None:
    """By UPDATE_BROKER_CONFIG 25, also from none to some and back."""
    waits = {"broker_role": "SYNC_MASTER", "slave_timeout": 200}
    master, slave = await pair(group, **waits)
    await put_until_stored(master, b"one")
    await slave.stop(grace_ms=0)
    assert await put(master, b"two") == ResponseCode.SUCCESS
    await change(master, b"inSyncReplicas=2")
    assert await put(master, b"three") == ResponseCode.FLUSH_SLAVE_TIMEOUT
    await change(master, b"inSyncReplicas=1")
    assert await put(master, b"four") == ResponseCode.SUCCESS


async def test_with_controllers_too(group: InProcess) -> None:
    lone = await group.start_broker(0)
    group.brokers.append(lone)
    await put_until_stored(lone, b"one")
    await change(lone, b"minInSyncReplicas=2")
    assert await put_under_lease(lone, b"two") == ResponseCode.SYSTEM_ERROR
    await change(lone, b"minInSyncReplicas=1")
    # A lower number is used once the controllers have recorded it, which is after the answer.
    await put_until_stored(lone, b"three")


async def change(broker: Broker, properties: bytes) -> None:
    client = await RawClient.connect(broker.port)
    answer = await client.ask(Command(RequestCode.UPDATE_BROKER_CONFIG, body=properties))
    await client.close()
    assert answer.code == ResponseCode.SUCCESS, answer.remark


async def test_a_pair_with_data_joins_controllers_in_place(group: InProcess) -> None:
    """RIP-44's compatibility table: upgrade the slave, then the master."""
    master, slave = await pair(group)
    await put_until_stored(master, b"old")
    await until(lambda: bodies(slave) == [b"old"])
    for broker in (slave, master):
        await broker.stop(grace_ms=0)
    group.brokers = [await group.start_broker(n, all_ack_in_sync_state_set=True) for n in (0, 1)]
    leader = await group.whole()
    await put_until_stored(leader, b"new")
    for broker in group.brokers:
        await until(lambda broker=broker: bodies(broker) == [b"old", b"new"])
    assert log_of(group.brokers[0]) == log_of(group.brokers[1])


async def test_a_taken_port_that_nobody_chose_does_not_stop_a_lone_broker(
    group: InProcess,
) -> None:
    port = free_port("127.0.0.1")
    first = await group.start_broker(0, **PLAIN, listen_port=port, ha_listen_port=0)
    group.brokers.append(first)
    with pytest.raises(PortInUse):
        await group.start_broker(1, **PLAIN, broker_name="other", ha_listen_port=port + 1)
    neighbour = await group.start_broker(
        2, **PLAIN, broker_name="neighbour", ha_listen_port=0, listen_port=port + 2
    )
    group.brokers.append(neighbour)
