"""Logs compared over sockets, and members that know nothing of ours."""

from collections.abc import AsyncIterator

import pytest
from tests.broker.group.group import InProcess, put_until_stored, until
from tests.broker.group.java_slave import JavaSlave
from tests.broker.group.test_pre_online_service import committed, pair, start, state

from epochmq.base.errors import NotReachable, PeerError
from epochmq.broker.group.pre_online_peers import LogsAsked
from epochmq.broker.serving.roles import Role
from epochmq.runtime.own_host import free_port
from epochmq.runtime.peers import Peers
from epochmq.wire.codes import RequestCode


@pytest.fixture
async def peers() -> AsyncIterator[Peers]:
    made = Peers()
    yield made
    await made.close()


async def test_logs_that_fit(group: InProcess, peers: Peers) -> None:
    master, slave = await pair(group)
    ends = (master.node.store.pointers, slave.node.store.pointers)
    for asks, asked, own_is_master in ((master, slave, True), (slave, master, False)):
        logs = LogsAsked(asks.node, peers)
        assert await logs.compare(asked.node.address, own_is_master=own_is_master) == ""
    await put_until_stored(master, b"x" * 1000)
    await until(lambda: ends[0].appended == ends[1].appended > 0)
    for asks, asked, own_is_master in ((master, slave, True), (slave, master, False)):
        logs = LogsAsked(asks.node, peers)
        assert await logs.compare(asked.node.address, own_is_master=own_is_master) == ""
    with pytest.raises(NotReachable):
        await LogsAsked(master.node, peers).compare(
            f"127.0.0.1:{free_port('127.0.0.1')}", own_is_master=True
        )


async def test_of_a_java_slave_only_the_length_is_known(group: InProcess, peers: Peers) -> None:
    master, slave = await pair(group)
    await put_until_stored(master, b"x" * 1000)
    async with JavaSlave(group.namesrv.port, end=100) as java:
        logs = LogsAsked(master.node, peers)
        assert await logs.compare(java.address, own_is_master=True) == ""
        java.end = 1 << 20
        assert "exists at the replica alone" in await logs.compare(java.address, own_is_master=True)
    namesrv = f"127.0.0.1:{group.namesrv.port}"  # knows neither request
    assert await logs.compare(namesrv, own_is_master=True) == ""
    slave.node.digest_runs = 100
    with pytest.raises(PeerError, match="digests are being worked at"):
        await logs.compare(slave.node.address, own_is_master=True)
    slave.node.digest_runs = 0


async def test_a_master_comes_back_to_a_java_slave(group: InProcess) -> None:
    """It says nothing of stepping down, so deliveries wait until it found out by itself."""
    async with JavaSlave(group.namesrv.port) as java:
        master = await start(group, 0)
        await until(lambda: master.node.serving.role is Role.MASTER)
        assert committed(master) == 0
        assert not master.node.serving.delivers
        assert java.asked.count(RequestCode.GET_ALL_CONSUMER_OFFSET) == 2
        await until(lambda: master.node.serving.delivers)


async def test_a_java_slave_with_a_longer_log_is_reported(group: InProcess) -> None:
    async with JavaSlave(group.namesrv.port, end=1 << 20):
        master = await start(group, 0)
        await until(lambda: state(master).startswith("DIVERGED"))
        assert master.node.serving.role is Role.PRE_ONLINE
