"""CONTROLLER_ALTER_SYNC_STATE_SET 1001 and CONTROLLER_GET_SYNC_STATE_DATA 1006.

The checks of a new set and their order are RocketMQ's; the first check that fails decides the code.
A repeat of a committed set is a success for EpochMQ's brokers, and has RocketMQ's code for others
(section 12.3).

An EpochMQ broker also proposes the present set, to learn the result of a proposal without an
answer. That raises the epoch of the set (KIP-497), so the older proposal is out of date.
"""

from msgspec.structs import replace

from epochmq.base.errors import Refused
from epochmq.controller.commands import AlterSyncStateSet
from epochmq.controller.controller_core import ControllerCore
from epochmq.controller.controller_state import (
    BrokerGroup,
    BrokerReplica,
    Key,
    address_set_body,
    set_body,
    shown_id,
)
from epochmq.controller.machine import Refusal, alter_refusal
from epochmq.controller.protocol_version import (
    Failure,
    ProtocolVersion,
    alter_number,
    number,
    protocol_version_of,
)
from epochmq.controller.steps import ConfirmLeadership, ControllerCall, Steps, Write
from epochmq.wire.bodies.body import decode_body, encode_body
from epochmq.wire.bodies.controller_bodies import (
    InSyncMember,
    InSyncState,
    ReplicaIdentity,
    ReplicasInfo,
    SyncStateAddresses,
    SyncStateData,
    SyncStateSet,
)
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers import controller_headers as g1
from epochmq.wire.headers import controller_headers as g2

_NOBODY = -1
"""An address or id that no broker has."""


def handle_alter(core: ControllerCore, call: ControllerCall) -> Steps:
    """Replace the sync-state set of a group (1001)."""
    protocol_version = protocol_version_of(call.request)
    if protocol_version is ProtocolVersion.G1:
        group, event, ours = _read_g1(core, call)
    else:
        group, event, ours = _read_g2(core, call)
    failed = number(protocol_version, Failure.ALTER)
    if group is None:
        raise Refused(failed, "the broker group is not known")
    refusal = alter_refusal(group, event)
    if refusal is Refusal.SAME_SET and ours and _is_repeat(group, event):
        if event.set_epoch != group.set_epoch:
            return _answer(group, protocol_version)
        event = replace(event, settle=True)
        refusal = alter_refusal(group, event)
    if not event.settle and (refusal is None or refusal is Refusal.WITHOUT_MASTER):
        # RocketMQ checks liveness before it checks that the master is in the set.
        for broker_id in event.members:
            if core.context.may_live_until(group, broker_id) <= core.context.now:
                raise Refused(
                    ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, f"broker {broker_id} is not alive"
                )
    if refusal is None:
        refusal = (yield Write(event)).refusal
        if refusal is Refusal.SAME_SET and ours and _is_repeat(group, event):
            refusal = None
    if refusal is not None:
        raise Refused(alter_number(protocol_version, refusal), f"not altered: {refusal.value}")
    return _answer(group, protocol_version)


def _is_repeat(group: BrokerGroup, event: AlterSyncStateSet) -> bool:
    return group.master == event.master and group.epoch == event.epoch


def _answer(group: BrokerGroup, protocol_version: ProtocolVersion) -> Reply:
    body = address_set_body(group) if protocol_version is ProtocolVersion.G1 else set_body(group)
    return Reply(header=g2.AlterSyncStateSetResponseHeader(group.set_epoch), body=body)


def _read_g2(
    core: ControllerCore, call: ControllerCall
) -> tuple[BrokerGroup | None, AlterSyncStateSet, bool]:
    header = decode_header(g2.AlterSyncStateSetHeader, call.request.ext)
    body = decode_body(SyncStateSet, call.request.body)
    group = core.context.find(header.clusterName, header.brokerName, call.session_id)
    event = AlterSyncStateSet(
        *(("", header.brokerName) if group is None else group.key),
        master=header.masterBrokerId,
        epoch=header.masterEpoch,
        set_epoch=body.sync_state_set_epoch,
        members=tuple(body.sync_state_set),
    )
    return group, event, header.incarnation is not None


def _read_g1(
    core: ControllerCore, call: ControllerCall
) -> tuple[BrokerGroup | None, AlterSyncStateSet, bool]:
    header = decode_header(g1.AlterSyncStateSetHeaderV50, call.request.ext)
    body = decode_body(SyncStateAddresses, call.request.body)
    group = core.context.find(None, header.brokerName, call.session_id)
    event = AlterSyncStateSet(
        *(("", header.brokerName) if group is None else group.key),
        master=_id_of(group, header.masterAddress),
        epoch=header.masterEpoch,
        set_epoch=body.sync_state_set_epoch,
        members=tuple(_id_of(group, address) for address in body.sync_state_set),
    )
    return group, event, False


def _id_of(group: BrokerGroup | None, address: str) -> int:
    replica = None if group is None else group.by_addr(address)
    return _NOBODY if replica is None else replica.id


# Sync state ----------------------------------------------------------------------------------
# CONTROLLER_GET_SYNC_STATE_DATA 1006: groups as tools show them, for both protocol versions.


def handle_sync_state(core: ControllerCore, call: ControllerCall) -> Steps:
    """Return the state of the named groups (1006); unknown groups are left out."""
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
    """Return the groups of that name, the one of `cluster` first; EpochMQ's brokers send the
    cluster.
    """
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
