"""Administration of controllers and brokers; works with RocketMQ 5.1.1 and later.

Requests that change something go to the leader, whose address any controller knows.
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
    """Requests to controllers, and to brokers about their epochs and their replication."""

    async def controller_metadata(self, address: str) -> headers.GetMetaDataResponseHeader:
        """Return leader and members of the controller group that `address` belongs to (1005)."""
        answer = await self.ask(address, request(RequestCode.CONTROLLER_GET_METADATA_INFO))
        return decode_header(headers.GetMetaDataResponseHeader, answer.ext)

    async def controller_leader(self, address: str) -> str:
        """Return the address of the leader. Raises `NotReachable` while there is none.

        Args:
            address: address of any controller of the group.
        """
        leader = (await self.controller_metadata(address)).controllerLeaderAddress
        if not leader:
            raise NotReachable(f"controller {address} knows of no leader now; try again")
        return leader

    async def sync_states(
        self, address: str, broker_names: Iterable[str]
    ) -> dict[str, ReplicasInfo]:
        """Return master, epochs and replicas of broker groups, by broker name (1006).

        Groups that the controllers do not know are left out.

        Args:
            address: address of any controller.
            broker_names: names of the broker groups.
        """
        leader = await self.controller_leader(address)
        code = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
        answer = await self.ask(leader, request(code, None, _names(list(broker_names))))
        return decode_body(BrokerReplicasInfo, answer.body).replicas_info_table

    async def elect_master(
        self, address: str, cluster: str, broker_name: str, broker_id: int
    ) -> tuple[headers.ElectMasterResponseHeader, ElectMasterBody]:
        """Make the replica `broker_id` the master of its group (1002).

        Args:
            address: address of any controller.
            cluster: name of the cluster.
            broker_name: name of the broker group.
            broker_id: id of the replica.

        Returns:
            The new master with its epochs, and the sync-state set.

        Raises:
            Refused: the replica is the master already, or cannot be elected.
        """
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
        """Remove replicas, or a whole broker group, from the controllers (1011).

        Args:
            address: address of any controller.
            cluster: name of the cluster.
            broker_name: name of the broker group.
            ids: ids of the replicas, as "1;2;3"; None means the whole group.
            living: whether replicas that are alive may be removed.
        """
        leader = await self.controller_leader(address)
        header = headers.CleanBrokerDataHeader(
            brokerName=broker_name,
            clusterName=cluster,
            brokerControllerIdsToClean=ids,
            isCleanLivingBroker=living,
        )
        await self.ask(leader, request(RequestCode.CLEAN_BROKER_DATA, header))

    async def timeline(self, address: str) -> list[FailoverData]:
        """Return the latest elections, oldest first (34002). Only EpochMQ's controllers know the
        request.
        """
        leader = await self.controller_leader(address)
        answer = await self.ask(leader, request(RequestCode.CONTROLLER_GET_TIMELINE))
        return decode_body(TimelineData, answer.body).failovers

    async def controller_config(self, address: str) -> dict[str, str]:
        """Return the options of one running controller (1010)."""
        answer = await self.ask(address, request(RequestCode.GET_CONTROLLER_CONFIG))
        return parse_properties(bytes(answer.body).decode())

    async def update_controller_config(self, address: str, changes: dict[str, str]) -> None:
        """Change options of one running controller (1009).

        Raises:
            Refused: an option cannot be changed at runtime.
        """
        body = format_properties(changes.items()).encode()
        await self.ask(address, request(RequestCode.UPDATE_CONTROLLER_CONFIG, None, body))

    async def broker_epochs(self, address: str) -> EpochEntryCache:
        """Return the epochs of a broker's log (1007).

        Raises:
            Refused: the broker is not in controller mode.
        """
        answer = await self.ask(address, request(RequestCode.GET_BROKER_EPOCH_CACHE))
        return decode_body(EpochEntryCache, answer.body)

    async def ha_status(self, address: str) -> HARuntimeInfo:
        """Return the state of replication at a broker: its slaves, or its master (907)."""
        answer = await self.ask(address, request(RequestCode.GET_BROKER_HA_STATUS))
        return decode_body(HARuntimeInfo, answer.body)

    async def reset_master_flush_offset(self, address: str, offset: int) -> None:
        """Set the flush offset of the master that a slave reports (908); a master ignores the
        request.

        Args:
            address: address of the slave.
            offset: commit log offset in bytes.
        """
        header = ResetMasterFlushOffsetHeader(offset)
        await self.ask(address, request(RequestCode.RESET_MASTER_FLUSH_OFFSET, header))


# Admin cluster -------------------------------------------------------------------------------
# Administration of brokers: statistics, configuration, broker containers.


CONTAINER_TIMEOUT_MS = 60_000
"""A broker that starts reads its log first; a broker that stops saves its state."""


class ClusterCalls(Caller):
    """Requests to one broker by its address."""

    async def runtime_info(self, address: str) -> dict[str, str]:
        """Return the broker's statistics by RocketMQ's names (28)."""
        answer = await self.ask(address, request(RequestCode.GET_BROKER_RUNTIME_INFO))
        return decode_body(KVTable, answer.body).table

    async def broker_config(self, address: str) -> dict[str, str]:
        """Return the broker's options, in the order of the broker (26)."""
        answer = await self.ask(address, request(RequestCode.GET_BROKER_CONFIG))
        return parse_properties(bytes(answer.body).decode())

    async def delete_expired_log(self, address: str) -> None:
        """Ask a broker to delete its expired log files now (329)."""
        await self.ask(address, request(RequestCode.DELETE_EXPIRED_COMMITLOG))

    async def update_broker_config(self, address: str, changes: dict[str, str]) -> None:
        """Change options of a running broker (25).

        Raises:
            Refused: an option cannot be changed at runtime.
        """
        body = format_properties(changes.items()).encode()
        await self.ask(address, request(RequestCode.UPDATE_BROKER_CONFIG, None, body))

    async def broker_stats(self, address: str, name: str, key: str) -> BrokerStatsData:
        """Return one statistics item, for example `TOPIC_PUT_NUMS` of a topic (315).

        Args:
            address: address of the broker.
            name: name of the statistic.
            key: the topic, group or pair that is counted.

        Raises:
            Refused: the item does not exist, because nothing was counted yet.
        """
        header = ViewBrokerStatsHeader(statsName=name, statsKey=key)
        answer = await self.ask(address, request(RequestCode.VIEW_BROKER_STATS_DATA, header))
        return decode_body(BrokerStatsData, answer.body)

    async def add_broker(self, container: str, path: str) -> None:
        """Ask a broker container to start a broker (902).

        Args:
            container: address of the container.
            path: path of the broker's properties file on the container's machine.

        Raises:
            Refused: the container cannot start it.
        """
        command = request(RequestCode.ADD_BROKER, AddBrokerHeader(configPath=path))
        await self.ask(container, command, CONTAINER_TIMEOUT_MS)

    async def remove_broker(self, container: str, cluster: str, name: str, number: int) -> None:
        """Ask a broker container to stop one of its brokers (903).

        Args:
            container: address of the container.
            cluster: name of the cluster.
            name: name of the broker group.
            number: id of the broker.

        Raises:
            Refused: the container has no such broker (211).
        """
        header = RemoveBrokerHeader(brokerName=name, brokerClusterName=cluster, brokerId=number)
        command = request(RequestCode.REMOVE_BROKER, header)
        await self.ask(container, command, CONTAINER_TIMEOUT_MS)
