"""CONTROLLER_GET_SYNC_STATE_DATA 1006: groups as tools show them, in both generations' shape."""

from epochmq.base.errors import Refused
from epochmq.controller.answers import shown_id
from epochmq.controller.controller_core import ControllerCore
from epochmq.controller.controller_state import BrokerGroup, BrokerReplica, Key
from epochmq.controller.steps import ConfirmLeadership, ControllerCall, Steps
from epochmq.wire.bodies.body import decode_body, encode_body
from epochmq.wire.bodies.controller_bodies import ReplicaIdentity, ReplicasInfo
from epochmq.wire.bodies.controller_v50_bodies import InSyncMember, InSyncState, SyncStateData
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Reply


def handle_sync_state(core: ControllerCore, call: ControllerCall) -> Steps:
    if not call.request.body:
        raise Refused(ResponseCode.SYSTEM_ERROR, "the body names no broker groups")
    names = decode_body(list[str], call.request.body)
    if not names:
        raise Refused(ResponseCode.SYSTEM_ERROR, "the body names no broker groups")
    cluster = (call.request.ext or {}).get("clusterName", "")
    yield ConfirmLeadership()
    data = SyncStateData({}, {})
    for name in names:
        for key in _keys(core, name, cluster)[:1]:
            group = core.context.machine.groups[key]
            data.in_sync_state_table[name] = _for_5_0(group)
            data.replicas_info_table[name] = _for_later(core, group)
    return Reply(body=encode_body(data))


def _keys(core: ControllerCore, name: str, cluster: str) -> list[Key]:
    """The groups of that name, the one of `cluster`, which our brokers tell, first."""
    keys = core.context.machine.by_name.get(name, [])
    return sorted(keys, key=lambda key: key[0] != cluster)


def _for_5_0(group: BrokerGroup) -> InSyncState:
    master = group.master_replica()
    state = InSyncState(
        [InSyncMember(group.replicas[n].address, shown_id(group, n)) for n in group.members],
        master_epoch=group.epoch,
        sync_state_set_epoch=group.set_epoch,
    )
    if master is not None:
        state.master_address = master.address
    return state


def _for_later(core: ControllerCore, group: BrokerGroup) -> ReplicasInfo:
    master = group.master_replica()
    info = ReplicasInfo(
        master_epoch=group.epoch,
        sync_state_set_epoch=group.set_epoch,
        in_sync_replicas=[_identity(core, group, group.replicas[n]) for n in group.members],
        not_in_sync_replicas=[
            _identity(core, group, replica)
            for number, replica in sorted(group.replicas.items())
            if number not in group.members
        ],
    )
    if master is not None:
        info.master_broker_id = master.id
        info.master_address = master.address
    return info


def _identity(core: ControllerCore, group: BrokerGroup, replica: BrokerReplica) -> ReplicaIdentity:
    alive = core.context.alive(group, replica.id)
    return ReplicaIdentity(group.name, replica.id, replica.address, alive)
