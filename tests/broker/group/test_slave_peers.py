"""A slave looks whether its log is its master's, whenever a link is new."""

import shutil

import pytest
from tests.broker.group.group import InProcess, bodies, log_of, put_until_stored, until
from tests.broker.group.test_plain_member import PLAIN, SLAVE, pair

from epochmq.broker.context.broker_problem import any_problem_of
from epochmq.broker.group.plain_member import PlainMember
from epochmq.broker.server.broker_server import Broker
from epochmq.runtime.own_host import free_port


def trouble(slave: Broker) -> str:
    """What a slave says of its log."""
    assert slave.member is not None
    return slave.member.figures()["epochmqLogTrouble"]


@pytest.mark.parametrize("also_at_master", [False, True], ids=["longer", "different"])
async def test_a_slave_whose_log_is_another_says_so_and_stops_copying(
    group: InProcess, also_at_master: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Upstream's slave dials for ever, or appends to what it has."""
    master, slave = await pair(group)
    await put_until_stored(master, b"both")
    await until(lambda: bodies(slave) == [b"both"])
    for broker in (slave, master):
        await broker.stop(grace_ms=0)
    for number in (0, 1) if also_at_master else (1,):
        lone = await group.start_broker(number, **PLAIN, broker_name=f"x{number}")
        await put_until_stored(lone, b"only %d" % number)
        await lone.stop(grace_ms=0)
    master = await group.start_broker(0, **PLAIN)
    slave = await group.start_broker(1, **SLAVE)
    group.brokers[:] = [master, slave]
    await until(lambda: trouble(slave))
    await put_until_stored(master, b"new")
    assert "move its store away" in trouble(slave)
    assert any_problem_of(slave.node) == f"nothing is copied: {trouble(slave)}"
    assert caplog.text.count("not copying: ") == 1
    assert isinstance(slave.member, PlainMember)
    assert not slave.member.replication.node.established
    assert bodies(slave) == [b"both", b"only 1"]
    await slave.stop(grace_ms=0)
    (group.folder / "store-1").rename(group.folder / "away")
    group.brokers[1] = slave = await group.start_broker(1, **SLAVE)
    await until(lambda: log_of(slave) == log_of(master))


async def test_a_master_that_lost_its_tail_is_noticed_on_the_next_link(group: InProcess) -> None:
    """The slave's log is not looked at only at its start."""
    ports = {"listen_port": free_port("127.0.0.1"), "ha_listen_port": free_port("127.0.0.1")}
    master, slave = await pair(group, **ports)
    await put_until_stored(master, b"kept")
    await until(lambda: bodies(slave) == [b"kept"])
    await master.stop(grace_ms=0)
    shutil.copytree(group.folder / "store-0", group.folder / "before")
    master = await group.start_broker(0, **PLAIN, **ports)
    await put_until_stored(master, b"lost")
    await until(lambda: bodies(slave) == [b"kept", b"lost"])
    await master.stop(grace_ms=0)
    shutil.rmtree(group.folder / "store-0")
    (group.folder / "before").rename(group.folder / "store-0")
    group.brokers[0] = master = await group.start_broker(0, **PLAIN, **ports)
    await until(lambda: trouble(slave))
    assert "exists at the replica alone" in trouble(slave)
