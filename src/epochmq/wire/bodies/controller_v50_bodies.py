"""Bodies of the controller family as 5.0 and 5.1.0 have them, and answers that serve both sides.

Tools of either generation read the fields they know and skip the others, so some answers hold both.
"""

from msgspec import UNSET, UnsetType

from epochmq.wire.bodies.body import Body, MaybeText
from epochmq.wire.bodies.controller_bodies import ReplicasInfo
from epochmq.wire.bodies.namesrv_bodies import BrokerMemberGroup


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
