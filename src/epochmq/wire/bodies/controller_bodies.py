"""Bodies of the controller family: 1001 to 1008."""

from msgspec import UNSET, UnsetType, field

from epochmq.base.unbounded import LONG_MAX
from epochmq.wire.bodies.body import Body, MaybeText
from epochmq.wire.bodies.namesrv_bodies import BrokerMemberGroup


class SyncStateSet(Body):
    """A group's sync-state set: ids of the replicas in it, and its epoch."""

    sync_state_set: list[int] = []
    sync_state_set_epoch: int = 0


class EpochEntryBody(Body):
    """One master epoch: the log's bytes from `start_offset` to before `end_offset`."""

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


class ElectMasterBody(Body):
    """Answer to CONTROLLER_ELECT_MASTER 1002."""

    broker_member_group: BrokerMemberGroup | UnsetType | None = UNSET
    sync_state_set: list[int] = []


class ReplicaIdentity(Body):
    """One replica as the controller knows it."""

    broker_name: str = ""
    broker_id: int = 0
    broker_address: MaybeText = UNSET
    alive: bool = False


class ReplicasInfo(Body):
    """One broker group as the controller knows it."""

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
    """One election as the leader saw it; ages in ms, -1 for what it did not see."""

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
# Bodies of the controller family as 5.0 and 5.1.0 have them, and answers that serve both sides.
#
# Tools of either generation read the fields they know and skip the others, so some answers hold
# both.


class SyncStateAddresses(Body):
    """A group's sync-state set: addresses of the replicas in it, and its epoch."""

    sync_state_set: list[str] = []
    sync_state_set_epoch: int = 0


class InSyncMember(Body):
    """One member of the set; the master is shown with id 0."""

    address: str = ""
    broker_id: int = 0


class InSyncState(Body):
    """One broker group as 5.0's getSyncStateSet prints it."""

    in_sync_members: list[InSyncMember] = []
    master_address: MaybeText = UNSET
    master_epoch: int = 0
    sync_state_set_epoch: int = 0


class SyncStateData(Body):
    """Answer to CONTROLLER_GET_SYNC_STATE_DATA 1006 for both generations, by broker name."""

    in_sync_state_table: dict[str, InSyncState] = {}
    replicas_info_table: dict[str, ReplicasInfo] = {}


class ElectedBody(Body):
    """Answer to CONTROLLER_ELECT_MASTER 1002 for both generations.

    5.3's mqadmin reads the wrapper as if it were the bare member group, so that stands beside it.
    """

    sync_state_set: list[int] = []
    broker_member_group: BrokerMemberGroup | UnsetType | None = UNSET
    cluster: MaybeText = UNSET
    broker_name: MaybeText = UNSET
    broker_addrs: dict[int, str] | UnsetType = UNSET


# Ha bodies -----------------------------------------------------------------------------------
# Body of GET_BROKER_HA_STATUS 907.


class HAConnectionInfo(Body):
    """One slave as its master sees it; offsets are byte positions in the log."""

    addr: str = ""
    slave_ack_offset: int = 0
    diff: int = 0
    in_sync: bool = False
    transferred_byte_in_second: int = 0
    transfer_from_where: int = 0


class HAClientInfo(Body):
    """The link to the master as its slave sees it."""

    master_addr: MaybeText = UNSET
    transferred_byte_in_second: int = 0
    max_offset: int = 0
    last_read_timestamp: int = 0
    last_write_timestamp: int = 0
    master_flush_offset: int = 0
    activated: bool = False


class HARuntimeInfo(Body):
    """Answer to 907."""

    master: bool = False
    master_commit_log_max_offset: int = 0
    in_sync_slave_nums: int = 0
    ha_connection_info: list[HAConnectionInfo] = []
    ha_client_runtime_info: HAClientInfo = field(default_factory=HAClientInfo)
