"""Requests to name servers go on to the next one."""

import random
from collections.abc import Mapping
from typing import cast

import pytest
from tests.compat.peers.epochmq import EpochCluster

from epochmq.base.errors import NotFound, NotReachable, Refused
from epochmq.client.aio.name_servers import NameServers
from epochmq.runtime.peers import Peers
from epochmq.wire.command import Command


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


class AnsweringPeers:
    """Answers by address with a code and a remark; 0 is a route without brokers."""

    def __init__(self, answers: Mapping[str, tuple[int, str]]) -> None:
        self._answers = answers

    async def invoke(self, address: str, command: Command, timeout_ms: int) -> Command:
        code, remark = self._answers[address]
        return Command(code, opaque=command.opaque, flag=1, remark=remark, body=b"{}")


async def test_a_server_that_has_just_started_is_passed_over() -> None:
    """RocketMQ's name servers answer the same with needWaitForService."""
    starting = (1, "name server not ready")
    peers = AnsweringPeers({"a:1": starting, "b:1": (0, "")})
    for seed in range(3):
        servers = NameServers("a:1;b:1", cast(Peers, peers), random.Random(seed))
        assert (await servers.route("T")).broker_datas == []
    peers = AnsweringPeers({"a:1": starting, "b:1": (1, "no such thing")})
    servers = NameServers("a:1", cast(Peers, peers), random.Random(1))
    with pytest.raises(NotReachable, match="a:1 does not know the brokers yet"):
        await servers.route("T")
    servers = NameServers("b:1", cast(Peers, peers), random.Random(1))
    with pytest.raises(Refused, match="no such thing"):
        await servers.route("T")


async def test_a_broker_is_no_name_server(cluster: EpochCluster) -> None:
    peers = Peers()
    servers = NameServers(cluster.broker_addr, peers, random.Random(1))
    with pytest.raises(Refused, match=f"{cluster.broker_addr}.* not a name server"):
        await servers.route("T")
    await peers.close()
