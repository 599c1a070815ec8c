"""BROKER_HEARTBEAT 904: liveness of brokers, ends of their logs, and the master's lease.

This is the most frequent request: 1,000 groups of three brokers send 10,000 a second. No heartbeat
is written to disk.

A heartbeat counts only if it comes from the process that registered last, over the newest
connection of that process. Any other heartbeat may be old: from a process that is dead, or from
before the present lease was given. It changes nothing.
"""

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.controller import liveness, replica_identity
from epochmq.controller.controller_core import ControllerCore
from epochmq.controller.controller_state import BrokerGroup, Key
from epochmq.controller.elect import PRIORITY_UNSET, LogReport
from epochmq.controller.liveness import LiveProcess
from epochmq.controller.protocol_version import ProtocolVersion, protocol_version_of
from epochmq.controller.replica_identity import Told
from epochmq.controller.steps import ConfirmLeadership, ControllerCall, Steps
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.controller_headers import (
    ControllerHeartbeatHeader,
    ControllerHeartbeatResponseHeader,
)

REMARK = "Heart beat success"


def handle_heartbeat(core: ControllerCore, call: ControllerCall) -> Reply | Steps:
    """Note a heartbeat, and answer with the state of the group; the master gets a lease."""
    header = decode_header(ControllerHeartbeatHeader, call.request.ext)
    key = header.clusterName, header.brokerName
    group = core.context.machine.groups.get(key)
    broker_id = _broker_id(call, header, group)
    if broker_id is None:
        return Reply(remark=REMARK)  # a 5.0 broker that has not registered here yet
    ours = header.leaseWanted is not None or header.incarnation is not None
    told = _told(broker_id, header)
    replica_identity.check_words(told)
    if ours:
        replica_identity.check_sole(core.context, key, told, call.session_id)
    replica = None if group is None else group.replicas.get(broker_id)
    if replica is not None and not replica_identity.is_process(replica, told):
        return _stranger(core) if ours else Reply(remark=REMARK)
    if replica is not None:
        core.context.live.forget_other(key, broker_id, replica.session)
    if ours and core.context.live.is_late(key, broker_id, call.session_id):
        return _answer(core, group)
    live = _hear(core, call, key, broker_id, header)
    if ours:
        replica_identity.note(live, told)
    if group is None or replica is None:
        return _stranger(core) if ours else Reply(remark=REMARK)
    if ours and core.context.leads:
        _record(core, group, told)
    _watch(core, group, live)
    timeline, epoch = core.context.timeline, live.report.epoch
    without_master_ms = timeline.reported(key, broker_id, epoch, core.context.now)
    if without_master_ms:
        core.context.counts.without_master_ms[key] += without_master_ms
    if not ours:
        return Reply(remark=REMARK)
    if not core.context.leads:
        return _answer(core, group)
    if core.sure_to_lead():
        return _answer_of_leader(core, group, live, header.epoch)
    return _answer_when_sure(core, key, live, header.epoch)


def _broker_id(
    call: ControllerCall, header: ControllerHeartbeatHeader, group: BrokerGroup | None
) -> int | None:
    if protocol_version_of(call.request) is ProtocolVersion.G1:
        replica = None if group is None else group.by_addr(header.brokerAddr)
        return None if replica is None else replica.id
    if header.brokerId is None or header.brokerId < 1:
        raise Refused(
            ResponseCode.CONTROLLER_INVALID_REQUEST, "Heart beat with empty brokerId or below 1"
        )
    return header.brokerId


def _told(broker_id: int, header: ControllerHeartbeatHeader) -> Told:
    """Return what may change while a process runs; the rest comes from its registration only."""
    return Told(
        broker_id,
        header.brokerAddr,
        ha_address=header.haAddress or "",
        incarnation=header.incarnation or "",
        session=header.session or "",
    )


def _hear(
    core: ControllerCore,
    call: ControllerCall,
    key: Key,
    broker_id: int,
    header: ControllerHeartbeatHeader,
) -> LiveProcess:
    context = core.context
    timeout_ms = replica_identity.timeout_of(context, header.heartbeatTimeoutMills)
    live = context.live.get(key, broker_id)
    if live is None:
        replica_identity.check_id(broker_id)
        replica_identity.check_names(*key)
    replica_identity.check_names(header.brokerAddr)
    live = context.live.heard(key, broker_id, call.session_id, context.now, timeout_ms)
    if live is None:
        raise Refused(ResponseCode.SYSTEM_BUSY, "too many brokers send heartbeats")
    live.timeout_ms = timeout_ms
    live.address = header.brokerAddr
    if header.leaseWanted or live.lease_until + context.times.skew_ms <= context.now:
        live.leased = bool(header.leaseWanted)
    live.resigned = bool(header.resign)
    if live.resigned:
        live.lease_until = 0
    live.confirm = -1 if header.confirmOffset is None else header.confirmOffset
    epoch = -1 if header.epoch is None else header.epoch
    offset = -1 if header.maxOffset is None else header.maxOffset
    priority = PRIORITY_UNSET if header.electionPriority is None else header.electionPriority
    if (epoch, offset, priority) != live.report:
        live.report = LogReport(min(epoch, limits.EPOCH_MAX), offset, priority)
    return live


def _record(core: ControllerCore, group: BrokerGroup, told: Told) -> None:
    """Write a new address of a replica into the replicated state, once."""
    replica = group.replicas.get(told.broker_id)
    mark = group.key, told.broker_id
    if replica is None or mark in core.recording or replica_identity.is_known(replica, told):
        return
    event = replica_identity.update_of(group, replica, told)
    if event is not None:
        core.recording.add(mark)
        core.context.write(event, lambda outcome: core.recorded(mark))


def _watch(core: ControllerCore, group: BrokerGroup, live: LiveProcess) -> None:
    """Plan elections that this heartbeat makes possible."""
    elections = core.elections
    if group.key in elections.headless or (live.resigned and group.master == live.id):
        elections.soon(group.key)
    elif not group.elected and core.context.leads:
        elections.plan(
            group.key, core.context.now + core.context.options.first_election_window_millis
        )


def _deserves_lease(
    core: ControllerCore, group: BrokerGroup, live: LiveProcess, epoch: int | None
) -> bool:
    """Whether the broker gets a lease: not while the master is about to change."""
    return liveness.may_hold(group, live, epoch) and not core.elections.under_way(group.key)


def _stranger(core: ControllerCore) -> Reply:
    """Ask an EpochMQ broker to register (2010).

    The controllers lost their data, the broker was cleaned by mistake, or another process
    registered with its id.
    """
    reply = _answer(core, None)
    if core.context.leads:
        reply.code = ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
        reply.remark = "this broker is not known here: register"
    return reply


def _answer_of_leader(
    core: ControllerCore, group: BrokerGroup, live: LiveProcess, epoch: int | None
) -> Reply:
    """Return who is master, with a lease for the master."""
    lease_ms = core.context.lease_ms
    if lease_ms <= 0 or not _deserves_lease(core, group, live, epoch):
        return _answer(core, group)
    live.lease_until = max(live.lease_until, core.context.now + lease_ms)
    return _answer(core, group, lease_ms)


def _answer_when_sure(
    core: ControllerCore, key: Key, live: LiveProcess, epoch: int | None
) -> Steps:
    """Confirm the leadership first, because a leader that may be deposed must not name a master."""
    yield ConfirmLeadership()
    group = core.context.machine.groups.get(key)
    return _stranger(core) if group is None else _answer_of_leader(core, group, live, epoch)


def _answer(core: ControllerCore, group: BrokerGroup | None, lease_ms: int | None = None) -> Reply:
    context = core.context
    header = ControllerHeartbeatResponseHeader(
        isLeader=context.leads,
        controllerLeaderAddress=context.leader_address,
        controllerTerm=context.term,
        leaseMillis=lease_ms,
    )
    if lease_ms is not None:
        # An unclean election needs no member, so no member would leave the old master before it
        # (ADR 0044).
        header.wholeSetMayHold = not context.unclean_allowed
    if group is not None and context.leads:
        master = group.master_replica()
        header.masterEpoch = group.epoch
        header.syncStateSetEpoch = group.set_epoch
        header.uncleanEpoch = group.unclean_epoch or None
        if master is not None:
            header.masterBrokerId = master.id
            header.masterAddress = master.address
            header.masterHaAddress = master.ha_address or None
        if core.elections.stepping_down(group.key):
            header.stepDown = True
    return Reply(remark=REMARK, header=header)
