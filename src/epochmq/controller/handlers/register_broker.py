"""CONTROLLER_REGISTER_BROKER 1003, and the requests for broker ids (1012, 1013).

A broker with an id that the controllers do not know is adopted, because the controllers may have
lost their data (defects, part 2.9). That alone elects no master. A master that registers is a new
process, and its old epoch must not go on (part 2.4). It is not master any more, and the group
elects a master under a new epoch. While the process before may hold a lease, the new process is
refused and asks again.
"""

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.controller import replica_identity
from epochmq.controller.commands import ApplyBrokerId
from epochmq.controller.controller_core import ControllerCore
from epochmq.controller.controller_state import (
    BrokerGroup,
    BrokerReplica,
    Key,
    address_set_body,
    set_body,
)
from epochmq.controller.elect import PRIORITY_UNSET, LogReport
from epochmq.controller.machine import Refusal
from epochmq.controller.protocol_version import Failure, ProtocolVersion, number
from epochmq.controller.replica_identity import Told
from epochmq.controller.steps import ConfirmLeadership, ControllerCall, Election, Steps, Write
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.controller_headers import (
    ApplyBrokerIdHeader,
    ApplyBrokerIdResponseHeader,
    GetNextBrokerIdHeader,
    GetNextBrokerIdResponseHeader,
    RegisterBrokerHeaderV50,
    RegisterBrokerResponseHeaderV50,
    RegisterBrokerToControllerHeader,
    RegisterBrokerToControllerResponseHeader,
)

_CODES = {
    Refusal.OTHER_GENERATION: ResponseCode.CONTROLLER_INVALID_REQUEST,
    Refusal.ID_TAKEN: ResponseCode.CONTROLLER_BROKER_ID_INVALID,
    Refusal.FULL: ResponseCode.SYSTEM_BUSY,
}


def handle_register(core: ControllerCore, call: ControllerCall) -> Steps:
    """Register a broker that has an id, and return the master and the sync-state set."""
    header = decode_header(RegisterBrokerToControllerHeader, call.request.ext)
    key = header.clusterName, header.brokerName
    replica_identity.check_names(*key, header.brokerAddress)
    replica_identity.check_id(header.brokerId)
    told = _told(header)
    replica_identity.check_words(told)
    replica_identity.check_sole(core.context, key, told, call.session_id)
    replica_identity.check_successor(core.context, key, told)
    _check_newest(core, key, told, call.session_id)
    before = core.context.machine.groups.get(key)
    known = before is not None and told.broker_id in before.replicas
    yield from _adopt(core, key, told)
    yield from update(core, call, key, told)
    live = core.context.live.get(key, told.broker_id)
    if live is not None and not known:
        # Earlier reports belong to an epoch that the broker left only now (ADR 0044).
        live.report = LogReport()
    yield ConfirmLeadership()
    group = core.context.machine.groups.get(key)
    if group is None:
        raise Refused(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, "it was cleaned")
    core.elections.soon(key)
    return Reply(header=_header(core, group), body=set_body(group))


def update(core: ControllerCore, call: ControllerCall, key: Key, told: Told) -> Steps:
    """Record what is new about a replica, and that it lives; the reply is not used.

    During this time no other command about the replica is proposed, because it would be older.
    """
    group = core.context.machine.groups[key]
    replica = group.replicas.get(told.broker_id)
    event = None if replica is None else replica_identity.update_of(group, replica, told)
    if event is not None:
        mark = key, told.broker_id
        core.recording.add(mark)
        try:
            outcome = yield Write(event)
        finally:
            core.recording.discard(mark)
        if not outcome.ok:
            raise Refused(ResponseCode.SYSTEM_ERROR, outcome.refusal.value)
    touch(core, call, key, told)
    return Reply()


def touch(core: ControllerCore, call: ControllerCall, key: Key, told: Told) -> None:
    """Note that the broker lives; its log is not known yet."""
    context = core.context
    if told.session is None:
        context.live.forget(key, told.broker_id)  # the entry belongs to the process before
    else:
        context.live.forget_other(key, told.broker_id, told.session)
    live = context.live.heard(
        key, told.broker_id, call.session_id, context.now, context.times.timeout_ms
    )
    if live is not None:
        replica_identity.note(live, told)


def _check_newest(core: ControllerCore, key: Key, told: Told, session_id: int) -> None:
    """Refuse an older request of a process that already sent one over a newer connection."""
    live = core.context.live.get(key, told.broker_id)
    if live is not None and live.session == told.session:
        if core.context.live.is_late(key, told.broker_id, session_id):
            raise Refused(ResponseCode.SYSTEM_ERROR, "this process has a newer connection")


def _told(header: RegisterBrokerToControllerHeader) -> Told:
    return Told(
        header.brokerId,
        header.brokerAddress,
        ha_address=header.haAddress or "",
        incarnation=header.incarnation or "",
        session=header.session,
        clean_start=header.cleanStart,
        learner=header.learner,
        floor=header.minInSyncReplicas,
    )


def _adopt(core: ControllerCore, key: Key, told: Told) -> Steps:
    group = core.context.machine.groups.get(key)
    if group is not None and group.by_address:
        raise Refused(_CODES[Refusal.OTHER_GENERATION], Refusal.OTHER_GENERATION.value)
    if group is None or told.broker_id not in group.replicas:
        event = ApplyBrokerId(
            *key,
            broker_id=told.broker_id,
            address=told.address,
            incarnation=told.incarnation,
            learner=bool(told.learner),
            adopted=True,
        )
        outcome = yield Write(event)
        if not outcome.ok:
            code = _CODES.get(outcome.refusal, ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED)
            raise Refused(code, f"not registered: {outcome.refusal.value}")
    return Reply()


def _header(core: ControllerCore, group: BrokerGroup) -> RegisterBrokerToControllerResponseHeader:
    header = RegisterBrokerToControllerResponseHeader(
        clusterName=group.cluster,
        brokerName=group.name,
        masterEpoch=group.epoch,
        syncStateSetEpoch=group.set_epoch,
        uncleanEpoch=group.unclean_epoch or None,
    )
    master = group.master_replica()
    if master is not None and core.context.has_master(group):
        header.masterBrokerId = master.id
        header.masterAddress = master.address
        header.masterHaAddress = master.ha_address or None
    return header


# Registration in 5.0 -------------------------------------------------------------------------
# CONTROLLER_REGISTER_BROKER 1003 of 5.0: one request gives an id, and elects a master if needed.
#
# The address identifies a replica. RocketMQ returns the recorded master without checking that it
# lives (rocketmq#5631). Here a dead master is replaced first, by the rules of any election.


TRIES = 5
"""Other brokers may take the next id in the meantime."""

ELECTION_MS = 2_600
"""Callers give up after three seconds."""


def handle_register_g1(core: ControllerCore, call: ControllerCall) -> Steps:
    """Register a broker of 5.0: give it an id, and elect a master if there is none."""
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
    """Find the caller's id, or give it one."""
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
    """Return the answer. The caller has id 0 only if this request made it the master."""
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


# Broker id -----------------------------------------------------------------------------------
# CONTROLLER_GET_NEXT_BROKER_ID 1012 and CONTROLLER_APPLY_BROKER_ID 1013: ids for new replicas.
#
# Two brokers may get the same next id. The first one that applies for it has it; the other one
# asks again.


_ID_CODES = {
    Refusal.OTHER_GENERATION: ResponseCode.CONTROLLER_INVALID_REQUEST,
    Refusal.FULL: ResponseCode.SYSTEM_BUSY,
}


def handle_next_id(core: ControllerCore, call: ControllerCall) -> Steps:
    """Return the next broker id of a group (1012)."""
    header = decode_header(GetNextBrokerIdHeader, call.request.ext)
    yield ConfirmLeadership()
    group = core.context.machine.groups.get((header.clusterName, header.brokerName))
    next_id = 1 if group is None else group.next_id
    return Reply(
        header=GetNextBrokerIdResponseHeader(header.clusterName, header.brokerName, next_id)
    )


def handle_apply_id(core: ControllerCore, call: ControllerCall) -> Steps:
    """Give a broker id to the applicant (1013); 2014 if another broker has it."""
    header = decode_header(ApplyBrokerIdHeader, call.request.ext)
    replica_identity.check_names(header.clusterName, header.brokerName, header.registerCheckCode)
    replica_identity.check_word(header.incarnation or "")
    replica_identity.check_id(header.appliedBrokerId)
    event = ApplyBrokerId(
        header.clusterName,
        header.brokerName,
        broker_id=header.appliedBrokerId,
        address=header.registerCheckCode.partition(";")[0],
        check_code=header.registerCheckCode,
        incarnation=header.incarnation or "",
        learner=bool(header.learner),
    )
    outcome = yield Write(event)
    if not outcome.ok:
        code = _ID_CODES.get(outcome.refusal, ResponseCode.CONTROLLER_BROKER_ID_INVALID)
        raise Refused(code, f"no such number for this broker: {outcome.refusal.value}")
    return Reply(header=ApplyBrokerIdResponseHeader(header.clusterName, header.brokerName))
