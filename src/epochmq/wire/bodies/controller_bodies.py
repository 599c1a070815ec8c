"""Bodies of the controller family: 1001 to 1008."""

from msgspec import UNSET, UnsetType

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
    end_offset: int = 2**63 - 1


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
