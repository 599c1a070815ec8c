"""CONTROLLER_ALTER_SYNC_STATE_SET 1001: the master's new sync-state set.

The checks and their order are RocketMQ's; which failed first decides the code. A repeat of what
was committed is a success for our brokers, and for others the number they know (section 12.3).

Our brokers also propose the set as it is, to learn what became of a proposal that nobody answered:
that moves the set's epoch (KIP-497), after which the older proposal is out of date.
"""

from msgspec.structs import replace

from epochmq.base.errors import Refused
from epochmq.controller.answers import address_set_body, set_body
from epochmq.controller.commands import AlterSyncStateSet
from epochmq.controller.controller_core import ControllerCore
from epochmq.controller.controller_state import BrokerGroup
from epochmq.controller.machine import Refusal, alter_refusal
from epochmq.controller.protocol_version import (
    Failure,
    ProtocolVersion,
    alter_number,
    number,
    protocol_version_of,
)
from epochmq.controller.steps import ControllerCall, Steps, Write
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.controller_bodies import SyncStateSet
from epochmq.wire.bodies.controller_v50_bodies import SyncStateAddresses
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Reply
from epochmq.wire.headers import controller_headers as g2
from epochmq.wire.headers import controller_v50_headers as g1
from epochmq.wire.headers.header import decode_header

_NOBODY = -1
"""Stands for an address or number that nobody has."""


def handle_alter(core: ControllerCore, call: ControllerCall) -> Steps:
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
        # RocketMQ looks who lives before it looks for the master in the set.
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
