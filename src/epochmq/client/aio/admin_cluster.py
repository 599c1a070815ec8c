"""Administration of brokers: figures, configuration, write permission."""

from epochmq.base.java_properties import format_properties, parse_properties
from epochmq.client.aio.admin_calls import Caller
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.namesrv_bodies import KVTable
from epochmq.wire.bodies.runtime_bodies import BrokerStatsData
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import request
from epochmq.wire.headers.admin_headers import (
    AddBrokerHeader,
    RemoveBrokerHeader,
    ViewBrokerStatsHeader,
)

CONTAINER_TIMEOUT_MS = 60_000
"""A broker that starts reads its log first, one that stops saves all it has."""


class ClusterCalls(Caller):
    """Calls to one broker by its address."""

    async def runtime_info(self, address: str) -> dict[str, str]:
        """The broker's figures by RocketMQ's names (28)."""
        answer = await self.ask(address, request(RequestCode.GET_BROKER_RUNTIME_INFO))
        return decode_body(KVTable, answer.body).table

    async def broker_config(self, address: str) -> dict[str, str]:
        """The broker's effective options in the order it gives them (26)."""
        answer = await self.ask(address, request(RequestCode.GET_BROKER_CONFIG))
        return parse_properties(bytes(answer.body).decode())

    async def delete_expired_log(self, address: str) -> None:
        """Have a broker delete the log files that are past their time now (329)."""
        await self.ask(address, request(RequestCode.DELETE_EXPIRED_COMMITLOG))

    async def update_broker_config(self, address: str, changes: dict[str, str]) -> None:
        """Change options of a running broker (25); `Refused` for what may not change."""
        body = format_properties(changes.items()).encode()
        await self.ask(address, request(RequestCode.UPDATE_BROKER_CONFIG, None, body))

    async def broker_stats(self, address: str, name: str, key: str) -> BrokerStatsData:
        """One counter, as `TOPIC_PUT_NUMS` of a topic (315); `Refused` when it was never used."""
        header = ViewBrokerStatsHeader(statsName=name, statsKey=key)
        answer = await self.ask(address, request(RequestCode.VIEW_BROKER_STATS_DATA, header))
        return decode_body(BrokerStatsData, answer.body)

    async def add_broker(self, container: str, path: str) -> None:
        """Let a container start the broker of a properties file over there (902); `Refused`."""
        command = request(RequestCode.ADD_BROKER, AddBrokerHeader(configPath=path))
        await self.ask(container, command, CONTAINER_TIMEOUT_MS)

    async def remove_broker(self, container: str, cluster: str, name: str, number: int) -> None:
        """Let a container stop one of its brokers (903); `Refused` 211 when it has no such one."""
        header = RemoveBrokerHeader(brokerName=name, brokerClusterName=cluster, brokerId=number)
        command = request(RequestCode.REMOVE_BROKER, header)
        await self.ask(container, command, CONTAINER_TIMEOUT_MS)
