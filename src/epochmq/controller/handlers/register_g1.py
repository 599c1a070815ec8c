"""CONTROLLER_REGISTER_BROKER 1003 of 5.0: one request gives a number, and a master if need be.

A replica is its address here. Upstream hands out a recorded master without looking whether it lives
(rocketmq#5631); here a dead one is replaced first, by the rules of any election.
"""

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.controller import replica_identity
from epochmq.controller.answers import address_set_body
from epochmq.controller.commands import ApplyBrokerId
from epochmq.controller.controller_core import ControllerCore
from epochmq.controller.controller_state import BrokerGroup, BrokerReplica, Key
from epochmq.controller.elect import PRIORITY_UNSET, LogReport
from epochmq.controller.handlers.register_broker import update
from epochmq.controller.machine import Refusal
from epochmq.controller.protocol_version import Failure, ProtocolVersion, number
from epochmq.controller.replica_identity import Told
from epochmq.controller.steps import ConfirmLeadership, ControllerCall, Election, Steps, Write
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Reply
from epochmq.wire.headers.controller_v50_headers import (
    RegisterBrokerHeaderV50,
    RegisterBrokerResponseHeaderV50,
)
from epochmq.wire.headers.header import decode_header

TRIES = 5
"""Others may take the next number in the meantime."""

ELECTION_MS = 2_600
"""Callers give up after three seconds."""


def handle_register_g1(core: ControllerCore, call: ControllerCall) -> Steps:
    header = decode_header(RegisterBrokerHeaderV50, call.request.ext)
    key = header.clusterName, header.brokerName
    replica_identity.check_names(*key, header.brokerAddress)
    yield from _number(core, key, header.brokerAddress)
    group, caller = _find(core, key, header.brokerAddress)
    told = Told(caller.id, header.brokerAddress)
    yield from update(core, call, key, told)
    _report(core, key, caller.id, header)
    epoch = group.epoch
    if not core.context.has_master(group):
        core.elections.wanted_by(key, caller.id)
        yield Election(key, core.context.now + ELECTION_MS)
    yield ConfirmLeadership()
    group, caller = _find(core, key, header.brokerAddress)
    return _reply(core, group, caller, made_master=group.epoch > epoch)


def _number(core: ControllerCore, key: Key, address: str) -> Steps:
    """Find or give the caller's number."""
    for _ in range(TRIES):
        group = core.context.machine.groups.get(key)
        if group is not None and group.by_addr(address) is not None and group.by_address:
            return Reply()
        event = ApplyBrokerId(
            *key,
            broker_id=1 if group is None else group.next_id,
            address=address,
            check_code=address,
            by_address=True,
        )
        outcome = yield Write(event)
        if outcome.ok:
            return Reply()
        if outcome.refusal is not Refusal.ID_TAKEN:
            break
    code = ResponseCode.CONTROLLER_INVALID_REQUEST
    raise Refused(code, f"not registered: {outcome.refusal.value}")


def _find(core: ControllerCore, key: Key, address: str) -> tuple[BrokerGroup, BrokerReplica]:
    group = core.context.machine.groups.get(key)
    replica = None if group is None else group.by_addr(address)
    if group is None or replica is None:
        raise Refused(ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, "it was cleaned meanwhile")
    return group, replica


def _report(
    core: ControllerCore, key: Key, broker_id: int, header: RegisterBrokerHeaderV50
) -> None:
    live = core.context.live.get(key, broker_id)
    if live is not None:
        epoch = -1 if header.epoch is None else min(header.epoch, limits.EPOCH_MAX)
        offset = -1 if header.maxOffset is None else header.maxOffset
        priority = PRIORITY_UNSET if header.electionPriority is None else header.electionPriority
        live.report = LogReport(epoch, offset, priority)
        live.timeout_ms = replica_identity.timeout_of(core.context, header.heartbeatTimeoutMillis)


def _reply(
    core: ControllerCore, group: BrokerGroup, caller: BrokerReplica, *, made_master: bool
) -> Reply:
    """The caller is shown as 0 only when this very call made it master."""
    master = group.master_replica() if core.context.has_master(group) else None
    is_master = master is not None and master.id == caller.id and made_master
    header = RegisterBrokerResponseHeaderV50(
        masterAddress="" if master is None else master.address,
        masterEpoch=group.epoch,
        syncStateSetEpoch=group.set_epoch,
        brokerId=0 if is_master else caller.id,
    )
    code = 0 if master is not None else number(ProtocolVersion.G1, Failure.REGISTER)
    remark = None if master is not None else "the group has no master, and this broker cannot be it"
    return Reply(code, remark, header, address_set_body(group))
