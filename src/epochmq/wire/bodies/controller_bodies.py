"""Bodies of requests about controllers, epochs and replication: 1001 to 1008, 907."""

from msgspec import UNSET, UnsetType, field

from epochmq.base.unbounded import LONG_MAX
from epochmq.wire.bodies.body import Body, MaybeText
from epochmq.wire.bodies.namesrv_bodies import BrokerMemberGroup


class SyncStateSet(Body):
    """The sync-state set of a broker group: ids of its members, and its epoch."""

    sync_state_set: list[int] = []
    sync_state_set_epoch: int = 0


class EpochEntryBody(Body):
    """One master epoch: bytes of the commit log from `start_offset` up to `end_offset`
    (exclusive).
    """

    epoch: int
    start_offset: int
    end_offset: int = LONG_MAX


class EpochEntryCache(Body):
    """Answer to GET_BROKER_EPOCH_CACHE 1007."""

    cluster_name: str = ""
    broker_name: str = ""
    broker_id: int = 0
    epoch_list: list[EpochEntryBody] = []
    max_offset: int = 0
    confirm_offset: int = -1
    """End of what readers see and sends are acknowledged for; -1 from RocketMQ's brokers, which do
    not report it.
    """


class ElectMasterBody(Body):
    """Answer to CONTROLLER_ELECT_MASTER 1002."""

    broker_member_group: BrokerMemberGroup | UnsetType | None = UNSET
    sync_state_set: list[int] = []


class ReplicaIdentity(Body):
    """One replica, as the controller knows it."""

    broker_name: str = ""
    broker_id: int = 0
    broker_address: MaybeText = UNSET
    alive: bool = False


class ReplicasInfo(Body):
    """One broker group, as the controller knows it."""

    master_broker_id: int | UnsetType | None = UNSET
    master_address: MaybeText = UNSET
    master_epoch: int = 0
    sync_state_set_epoch: int = 0
    in_sync_replicas: list[ReplicaIdentity] = []
    not_in_sync_replicas: list[ReplicaIdentity] = []


class BrokerReplicasInfo(Body):
    """Answer to CONTROLLER_GET_SYNC_STATE_DATA 1006, by broker name."""

    replicas_info_table: dict[str, ReplicasInfo] = {}


class FailoverData(Body):
    """One election, as the leader saw it. Ages are milliseconds; -1 means not known."""

    cluster_name: str
    broker_name: str
    epoch: int = 0
    master_broker_id: int = 0
    master_address: str = ""
    last_heard_ago_ms: int = -1
    detected_ago_ms: int = -1
    elected_ago_ms: int = -1
    applied_ago_ms: int = -1


class TimelineData(Body):
    """Answer to CONTROLLER_GET_TIMELINE 34002, oldest first."""

    failovers: list[FailoverData] = []


# Controller v50 bodies -----------------------------------------------------------------------
# Bodies of RocketMQ 5.0 and 5.1.0, and answers for both protocol versions.
#
# Tools of either version read the fields that they know and skip the others. So some answers hold
# the fields of both.


class SyncStateAddresses(Body):
    """The sync-state set of a broker group: addresses of its members, and its epoch."""

    sync_state_set: list[str] = []
    sync_state_set_epoch: int = 0


class InSyncMember(Body):
    """One member of the sync-state set; the master has id 0."""

    address: str = ""
    broker_id: int = 0


class InSyncState(Body):
    """One broker group, as getSyncStateSet of 5.0 prints it."""

    in_sync_members: list[InSyncMember] = []
    master_address: MaybeText = UNSET
    master_epoch: int = 0
    sync_state_set_epoch: int = 0


class SyncStateData(Body):
    """Answer to CONTROLLER_GET_SYNC_STATE_DATA 1006 for both protocol versions, by broker name."""

    in_sync_state_table: dict[str, InSyncState] = {}
    replicas_info_table: dict[str, ReplicasInfo] = {}


class ElectedBody(Body):
    """Answer to CONTROLLER_ELECT_MASTER 1002 for both protocol versions.

    mqadmin of 5.3 reads this body as if it were a `BrokerMemberGroup`, so its fields are repeated
    here.
    """

    sync_state_set: list[int] = []
    broker_member_group: BrokerMemberGroup | UnsetType | None = UNSET
    cluster: MaybeText = UNSET
    broker_name: MaybeText = UNSET
    broker_addrs: dict[int, str] | UnsetType = UNSET


# Replication bodies --------------------------------------------------------------------------
# Body of GET_BROKER_HA_STATUS 907.


class HAConnectionInfo(Body):
    """One slave, as its master sees it. Offsets are bytes in the commit log.

    EpochMQ's own, absent without controllers: `epochmq_lag_ms` is how long ago the slave last had
    the whole log, -1 before that is known; `epochmq_broker_id` is the slave's id in its group.
    """

    addr: str = ""
    slave_ack_offset: int = 0
    diff: int = 0
    in_sync: bool = False
    transferred_byte_in_second: int = 0
    transfer_from_where: int = 0
    epochmq_lag_ms: int | UnsetType = UNSET
    epochmq_broker_id: int | UnsetType | None = UNSET


class HAClientInfo(Body):
    """The connection to the master, as its slave sees it. Offsets are bytes in the commit log."""

    master_addr: MaybeText = UNSET
    transferred_byte_in_second: int = 0
    max_offset: int = 0
    last_read_timestamp: int = 0
    last_write_timestamp: int = 0
    master_flush_offset: int = 0
    activated: bool = False


class HARuntimeInfo(Body):
    """Answer to GET_BROKER_HA_STATUS 907."""

    master: bool = False
    master_commit_log_max_offset: int = 0
    in_sync_slave_nums: int = 0
    ha_connection_info: list[HAConnectionInfo] = []
    ha_client_runtime_info: HAClientInfo = field(default_factory=HAClientInfo)
