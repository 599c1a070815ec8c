"""The list of name servers: what can be read, and going on to the next one."""

import random

import pytest
from tests.compat.peers.epochmq import EpochCluster

from epochmq.base.errors import NotFound, Refused, UsageError
from epochmq.client.aio.name_servers import NameServers, parse_addresses
from epochmq.runtime.peers import Peers


def test_addresses_are_split() -> None:
    assert parse_addresses("a:1; b:2,c:3;") == ["a:1", "b:2", "c:3"]


@pytest.mark.parametrize("text", ["", ";", "host", "host:", "host:0", "host:x", ":1", "host:70000"])
def test_an_unreadable_list_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="host:port"):
        parse_addresses(text)


async def test_a_dead_server_is_passed_over(namesrv: str) -> None:
    peers = Peers()
    try:
        for seed in range(3):
            servers = NameServers(f"127.0.0.1:1;{namesrv}", peers, random.Random(seed))
            with pytest.raises(NotFound):
                await servers.route("NoSuchTopic")
        assert (await servers.route("TBW102")).broker_datas
    finally:
        await peers.close()


async def test_a_broker_is_no_name_server(cluster: EpochCluster) -> None:
    peers = Peers()
    servers = NameServers(cluster.broker_addr, peers, random.Random(1))
    with pytest.raises(Refused, match=f"{cluster.broker_addr}.* no name server"):
        await servers.route("T")
    await peers.close()
