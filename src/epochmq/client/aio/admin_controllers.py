"""Administration of controllers and of what they decide; works with RocketMQ's 5.1.1 and later.

What changes anything goes to the leader, which any member of the group can name.
"""

from collections.abc import Iterable

import msgspec

from epochmq.base.errors import NotReachable
from epochmq.base.java_properties import format_properties, parse_properties
from epochmq.client.aio.admin_calls import Caller
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.controller_bodies import (
    BrokerReplicasInfo,
    ElectMasterBody,
    EpochEntryCache,
    FailoverData,
    HARuntimeInfo,
    ReplicasInfo,
    TimelineData,
)
from epochmq.wire.bodies.namesrv_bodies import KVTable
from epochmq.wire.bodies.runtime_bodies import BrokerStatsData
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import request
from epochmq.wire.header import decode_header
from epochmq.wire.headers import controller_headers as headers
from epochmq.wire.headers.admin_headers import (
    AddBrokerHeader,
    RemoveBrokerHeader,
    ResetMasterFlushOffsetHeader,
    ViewBrokerStatsHeader,
)

_names = msgspec.json.Encoder().encode


class ControllerCalls(Caller):
    """Calls to controllers, and to brokers about their epochs and replication."""

    async def controller_metadata(self, address: str) -> headers.GetMetaDataResponseHeader:
        """Who leads the controller group that `address` belongs to (1005)."""
        answer = await self.ask(address, request(RequestCode.CONTROLLER_GET_METADATA_INFO))
        return decode_header(headers.GetMetaDataResponseHeader, answer.ext)

    async def controller_leader(self, address: str) -> str:
        """Address of the leader, asked of any member; `NotReachable` while there is none."""
        leader = (await self.controller_metadata(address)).controllerLeaderAddress
        if not leader:
            raise NotReachable(f"controller {address} knows of no leader now; try again")
        return leader

    async def sync_states(
        self, address: str, broker_names: Iterable[str]
    ) -> dict[str, ReplicasInfo]:
        """Master, epochs and replicas of the groups that the controllers know (1006)."""
        leader = await self.controller_leader(address)
        code = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
        answer = await self.ask(leader, request(code, None, _names(list(broker_names))))
        return decode_body(BrokerReplicasInfo, answer.body).replicas_info_table

    async def elect_master(
        self, address: str, cluster: str, broker_name: str, broker_id: int
    ) -> tuple[headers.ElectMasterResponseHeader, ElectMasterBody]:
        """Make the replica `broker_id` master (1002); `Refused` when it is, or cannot be."""
        leader = await self.controller_leader(address)
        header = headers.ElectMasterHeader(
            clusterName=cluster, brokerName=broker_name, brokerId=broker_id, designateElect=True
        )
        answer = await self.ask(leader, request(RequestCode.CONTROLLER_ELECT_MASTER, header))
        body = decode_body(ElectMasterBody, answer.body)
        return decode_header(headers.ElectMasterResponseHeader, answer.ext), body

    async def clean_broker_data(
        self, address: str, cluster: str | None, broker_name: str, ids: str | None, living: bool
    ) -> None:
        """Make the controllers forget replicas, `1;2;3`, or with None the whole group (1011)."""
        leader = await self.controller_leader(address)
        header = headers.CleanBrokerDataHeader(
            brokerName=broker_name,
            clusterName=cluster,
            brokerControllerIdsToClean=ids,
            isCleanLivingBroker=living,
        )
        await self.ask(leader, request(RequestCode.CLEAN_BROKER_DATA, header))

    async def timeline(self, address: str) -> list[FailoverData]:
        """The latest elections (34002), oldest first; only EpochMQ's controllers tell."""
        leader = await self.controller_leader(address)
        answer = await self.ask(leader, request(RequestCode.CONTROLLER_GET_TIMELINE))
        return decode_body(TimelineData, answer.body).failovers

    async def controller_config(self, address: str) -> dict[str, str]:
        """The options that one controller runs with (1010)."""
        answer = await self.ask(address, request(RequestCode.GET_CONTROLLER_CONFIG))
        return parse_properties(bytes(answer.body).decode())

    async def update_controller_config(self, address: str, changes: dict[str, str]) -> None:
        """Change options of one running controller (1009); `Refused` for what may not change."""
        body = format_properties(changes.items()).encode()
        await self.ask(address, request(RequestCode.UPDATE_CONTROLLER_CONFIG, None, body))

    async def broker_epochs(self, address: str) -> EpochEntryCache:
        """The epochs of a broker's log (1007); `Refused` when it is not in controller mode."""
        answer = await self.ask(address, request(RequestCode.GET_BROKER_EPOCH_CACHE))
        return decode_body(EpochEntryCache, answer.body)

    async def ha_status(self, address: str) -> HARuntimeInfo:
        """Replication as a broker sees it: its slaves, or its master (907)."""
        answer = await self.ask(address, request(RequestCode.GET_BROKER_HA_STATUS))
        return decode_body(HARuntimeInfo, answer.body)

    async def reset_master_flush_offset(self, address: str, offset: int) -> None:
        """Set what a slave shows as its master's flush offset (908); a master takes no notice."""
        header = ResetMasterFlushOffsetHeader(offset)
        await self.ask(address, request(RequestCode.RESET_MASTER_FLUSH_OFFSET, header))


# Admin cluster -------------------------------------------------------------------------------
# Administration of brokers: figures, configuration, write permission.


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
