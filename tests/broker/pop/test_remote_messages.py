"""Messages of another group are read from whoever answers for it, over real sockets."""

from collections.abc import Mapping

import pytest
from tests.broker.escape.groups import Groups, give
from tests.broker.group.group import HOST, until

from epochmq.broker.pop.pop_records import CheckPoint
from epochmq.broker.pop.remote_fetch import RemoteMessages
from epochmq.broker.server.broker_server import Broker
from epochmq.broker.serving.roles import Role
from epochmq.model.message import StoredMessage
from epochmq.runtime.clock import RealClock
from epochmq.runtime.own_host import free_port
from epochmq.runtime.peers import Peers

Found = Mapping[int, StoredMessage | None]


async def read(groups: Groups, broker: Broker, *offsets: int, topic: str = "T") -> Found | None:
    dead = f"{HOST}:{free_port(HOST)}"
    servers = [dead, f"{HOST}:{groups.namesrv.port}"]
    remote_fetch = RemoteMessages(Peers(), servers, RealClock())
    said: list[Found | None] = []
    check_point = CheckPoint(topic=topic, group="G", queue_id=0, broker_name="a")
    try:
        remote_fetch.fetch(check_point, offsets, said.append)
        await until(lambda: said)
        remote_fetch.fetch(check_point, offsets, said.append)  # by the address that is known
        await until(lambda: len(said) == 2)
    finally:
        await remote_fetch.close()
    remote_fetch.fetch(check_point, offsets, said.append)
    assert said[0] == said[1]
    return said[0]


def texts(found: Found | None) -> dict[int, bytes | None]:
    assert found is not None
    return {at: None if message is None else message.body for at, message in found.items()}


async def test_of_the_master_and_of_the_slave_that_stands_in(groups: Groups) -> None:
    master, slave = await groups.pair()
    for body in (b"0", b"1", b"2"):
        await give(master, body, queue_id=0)
    found = await read(groups, master, 0, 2)
    assert texts(found) == {0: b"0", 2: b"2"}
    assert texts(await read(groups, master, 2, 3)) == {2: b"2"}  # the last is not there yet
    await groups.stand_in(master, slave)
    assert slave.node.serving.role is Role.ACTING_MASTER
    assert texts(await read(groups, slave, 1)) == {1: b"1"}


@pytest.mark.parametrize("topic", ["nowhere", "T"])
async def test_nobody_answers(groups: Groups, topic: str) -> None:
    master = await groups.master_of("a", broker_permission=2)  # not to be read
    await give(master, b"0")
    assert await read(groups, master, 0, topic=topic) is None
