"""Brokers that come back into their group, over real sockets."""

import asyncio
from typing import Any

import pytest
from tests.broker.client import RawClient
from tests.broker.group.group import (
    InProcess,
    bodies,
    log_of,
    put,
    put_many,
    put_until_stored,
    until,
)

from epochmq.broker.group.metadata_sync import FetchTable
from epochmq.broker.group.plain_member import PlainMember
from epochmq.broker.group.replicated_tables import CopiedTable
from epochmq.broker.server.broker_server import Broker
from epochmq.broker.serving.roles import Role
from epochmq.model.topic import TopicConfig
from epochmq.replication.plain.plain_frames import encode_report
from epochmq.runtime.own_host import free_port
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.namesrv_bodies import RegisterBrokerBody
from epochmq.wire.bodies.topic_bodies import TopicConfigTable
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.headers.namesrv_headers import RegisterBrokerHeader

PLAIN: dict[str, Any] = {
    "enable_controller_mode": False,
    "controller_addr": "",
    "enable_slave_acting_master": True,
    "compatible_with_old_name_srv": False,
    "total_replicas": 2,
    "slave_read_enable": True,
    "broker_not_active_timeout_millis": 1_000,
    "sync_broker_member_group_period": 50,
    "flush_consumer_offset_interval": 1_000,
}
SLAVE: dict[str, Any] = {**PLAIN, "broker_role": "SLAVE", "broker_id": 1}


async def start(group: InProcess, number: int, **more: Any) -> Broker:
    broker = await group.start_broker(number, **{**(SLAVE if number else PLAIN), **more})
    group.brokers.append(broker)
    return broker


async def pair(group: InProcess, **more: Any) -> tuple[Broker, Broker]:
    """Both online, and the slave has copied everything."""
    master = await start(group, 0, **more)
    await until(lambda: master.node.serving.role is Role.MASTER)
    slave = await start(group, 1, **more)
    await until(lambda: slave.node.serving.role is Role.SLAVE)
    return master, slave


def state(broker: Broker) -> str:
    assert broker.member is not None
    return broker.member.figures()["epochmqPreOnline"]


def committed(broker: Broker, queue_id: int = 0) -> int:
    return broker.node.offsets.get("g", "T", queue_id)


async def test_a_master_that_returns_takes_over_what_the_slave_did(group: InProcess) -> None:
    """S14: upstream's master brings its old offsets, and the slave takes those."""
    ports = {"listen_port": free_port("127.0.0.1")}
    master, slave = await pair(group)
    await put_until_stored(master, b"one")
    await put_many(master, 8)
    await put_many(master, 9, queue_id=1)
    master.node.offsets.commit("g", "T", 0, 5)
    master.node.offsets.commit("g", "T", 1, 8)
    await until(lambda: (committed(slave), committed(slave, 1)) == (5, 8))
    await until(lambda: log_of(slave) == log_of(master))
    await master.stop(grace_ms=0)
    await until(lambda: slave.node.serving.role is Role.ACTING_MASTER)
    slave.node.offsets.commit("g", "T", 0, 9)
    slave.node.offsets.reset("g", "T", 1, 2, slave.node.clock.wall_ms())
    again = await start(group, 0, **ports)
    assert again.node.serving.role is Role.PRE_ONLINE
    assert 0 not in group.route()
    assert await put(again) == ResponseCode.SERVICE_NOT_AVAILABLE
    await until(lambda: again.node.serving.role is Role.MASTER)
    assert slave.node.serving.role is Role.SLAVE
    assert (committed(again), committed(again, 1)) == (9, 2)
    assert state(again) == "ONLINE"
    await until(lambda: group.route() == {0: again.node.address, 1: slave.node.address})
    again.node.offsets.commit("g", "T", 0, 10)
    await until(lambda: (committed(slave), committed(slave, 1)) == (10, 2))
    await put_until_stored(again, b"two")
    await until(lambda: bodies(slave) == [b"one", *[b"x"] * 8, b"two"])
    assert log_of(slave) == log_of(again)


async def test_nobody_takes_the_tables_of_a_master_that_is_not_online(group: InProcess) -> None:
    """Else what it is to take over were gone before it came: INV-29."""
    client = await member_that_does_not_answer(group)
    master = await start(group, 0)
    await until(lambda: "comparing logs with 1@" in state(master))
    asker = await RawClient.connect(master.port)
    for code in (21, 43, 45, 60, 61, 201, 402):
        answer = await asker.ask(request(RequestCode(code)))
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "not online yet" in (answer.remark or "")
    for code in (906, 907, 28):
        assert (await asker.ask(request(RequestCode(code)))).code == 0
    await asker.close()
    assert (master.node.serving.role, group.route().get(0)) == (Role.PRE_ONLINE, None)
    await client.close()  # the name server forgets it at once
    await until(lambda: master.node.serving.role is Role.MASTER)


async def member_that_does_not_answer(group: InProcess) -> RawClient:
    """Registered as slave 1, at a port where nobody listens; so long as the connection lives."""
    client = await RawClient.connect(group.namesrv.port)
    topics = {name: TopicConfig(name, 1, 1) for name in ("T", "U")}
    header = RegisterBrokerHeader(
        brokerName="b",
        brokerAddr=f"127.0.0.1:{free_port('127.0.0.1')}",
        clusterName="c",
        haServerAddr="127.0.0.1:1",
        brokerId=1,
    )
    body = encode_body(RegisterBrokerBody(TopicConfigTable(topics)))
    answer = await client.ask(request(RequestCode.REGISTER_BROKER, header, body))
    assert answer.code == 0, answer.remark
    return client


async def test_a_slave_that_copies_and_is_not_listed_yet_is_waited_for(group: InProcess) -> None:
    """Its master died while it came online itself: it knows what that had not saved (INV-29)."""
    ha_port = free_port("127.0.0.1")
    master = await start(group, 0, ha_listen_port=ha_port)
    _, link = await asyncio.open_connection("127.0.0.1", ha_port)
    link.write(encode_report(0))
    await until(lambda: "waiting for a slave that copies from here" in state(master))
    client = await member_that_does_not_answer(group)
    await until(lambda: "comparing logs with 1@" in state(master))
    assert master.node.serving.role is Role.PRE_ONLINE
    await client.close()
    link.close()
    await until(lambda: master.node.serving.role is Role.MASTER)


async def test_what_is_under_way_at_the_hand_over_is_not_taken(group: InProcess) -> None:
    """The process that said it may have died since, and the master has no such offsets (INV-29)."""
    master, slave = await pair(group)
    member = slave.member
    assert isinstance(member, PlainMember)
    sync = member.sync.core
    command = request(RequestCode.GET_ALL_CONSUMER_OFFSET)
    fetch = FetchTable(master.node.address, CopiedTable.OFFSETS, command, sync._tenure)
    sync.answered(fetch, Command(0, body=b'{"offsetTable":{"T@g":{"0":7}}}'), 0)
    assert committed(slave) == 7
    member.master_returns(master.node.address, master.node.ha_address, hand_over=False)
    sync.answered(fetch, Command(0, body=b'{"offsetTable":{"T@g":{"0":8}}}'), 0)
    assert committed(slave) == 8  # the master asks for our tables once more
    member.master_returns(master.node.address, master.node.ha_address, hand_over=True)
    sync.answered(fetch, Command(0, body=b'{"offsetTable":{"T@g":{"0":9}}}'), 0)
    assert committed(slave) == 8
    master.node.offsets.commit("g", "T", 0, 10)
    await until(lambda: committed(slave) == 10)


async def test_without_a_pre_online_a_master_is_there_at_once(group: InProcess) -> None:
    client = await member_that_does_not_answer(group)
    master = await start(group, 0, skip_pre_online=True)
    assert master.node.serving.role is Role.MASTER
    await client.close()


async def test_a_slave_is_invisible_until_it_has_its_masters_tables(group: InProcess) -> None:
    master = await start(group, 0)
    await until(lambda: master.node.serving.role is Role.MASTER)
    master.node.offsets.commit("g", "T", 0, 5)
    slave = await start(group, 1)
    assert slave.node.serving.role is Role.PRE_ONLINE
    await until(lambda: 1 in group.route())
    assert committed(slave) == 5
    assert slave.node.serving.role is Role.SLAVE
    assert (slave.member.acting.core.ready) is True  # type: ignore[union-attr]


@pytest.mark.parametrize("also_at_master", [False, True], ids=["longer", "different"])
async def test_logs_that_do_not_fit_are_reported(
    group: InProcess, also_at_master: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """H9: the master comes back without what its slave has, or with something else."""
    master, slave = await pair(group)
    await put_until_stored(master, b"both")
    await until(lambda: bodies(slave) == [b"both"])
    for broker in (slave, master):
        await broker.stop(grace_ms=0)
    alone = {"enable_slave_acting_master": False, "broker_role": "ASYNC_MASTER", "broker_id": 0}
    numbers = (1, 0) if also_at_master else (1,)
    for number in numbers:
        lone = await group.start_broker(number, **{**PLAIN, **alone, "broker_name": f"x{number}"})
        await put_until_stored(lone, f"only {number}".encode())
        await lone.stop(grace_ms=0)
    slave = await start(group, 1)
    await until(lambda: slave.node.serving.role in (Role.SLAVE, Role.ACTING_MASTER))
    master = await start(group, 0)
    await until(lambda: state(master).startswith("DIVERGED"))
    assert master.node.serving.role is Role.PRE_ONLINE
    said = "differ, at 0 or before" if also_at_master else "exists at the replica alone"
    assert said in state(master)
    assert "move its store away" in caplog.text
    assert 0 not in group.route()
    before = log_of(slave)
    assert before == log_of(slave)


async def test_a_ready_broker_that_is_not_online_logs_what_it_waits_for(
    group: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    master = await start(group, 0, broker_not_active_timeout_millis=60_000)
    await until(lambda: "they name nobody else; that is believed in 5" in state(master))
    await until(lambda: "not online yet: waiting for the name servers" in caplog.text)
    lines = [line for line in caplog.text.splitlines() if "not online yet" in line]
    assert len(lines) == 1
