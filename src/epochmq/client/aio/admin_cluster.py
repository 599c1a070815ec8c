"""Administration of brokers: figures, configuration, write permission."""

from epochmq.base.java_properties import format_properties, parse_properties
from epochmq.client.aio.admin_calls import Caller
from epochmq.wire.bodies.base import decode_body
from epochmq.wire.bodies.namesrv import KVTable
from epochmq.wire.bodies.runtime import BrokerStatsData
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import request
from epochmq.wire.headers.admin import ViewBrokerStatsHeader


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

    async def update_broker_config(self, address: str, changes: dict[str, str]) -> None:
        """Change options of a running broker (25); `Refused` for what may not change."""
        body = format_properties(changes.items()).encode()
        await self.ask(address, request(RequestCode.UPDATE_BROKER_CONFIG, None, body))

    async def broker_stats(self, address: str, name: str, key: str) -> BrokerStatsData:
        """One counter, as `TOPIC_PUT_NUMS` of a topic (315); `Refused` when it was never used."""
        header = ViewBrokerStatsHeader(statsName=name, statsKey=key)
        answer = await self.ask(address, request(RequestCode.VIEW_BROKER_STATS_DATA, header))
        return decode_body(BrokerStatsData, answer.body)
