"""CONTROLLER_ELECT_MASTER 1002: a broker asks for a master, or an operator names one.

`elections.py` runs the election, in the same way for all requests. Before a living master is
replaced its lease must end. EpochMQ's masters are asked to resign, which takes one heartbeat. A
replica from outside the sync-state set needs the operator's `uncleanElect`, or the switch.
"""

import logging

from epochmq.base.errors import Refused
from epochmq.controller.commands import UpdateBroker
from epochmq.controller.controller_core import ControllerCore
from epochmq.controller.controller_state import BrokerGroup, shown_id
from epochmq.controller.elect import By
from epochmq.controller.protocol_version import (
    Failure,
    ProtocolVersion,
    number,
    protocol_version_of,
)
from epochmq.controller.steps import ConfirmLeadership, ControllerCall, Election, Steps, Write
from epochmq.wire.bodies.controller_bodies import ElectedBody
from epochmq.wire.bodies.namesrv_bodies import BrokerMemberGroup
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers import controller_headers as g1
from epochmq.wire.headers import controller_headers as g2
from epochmq.wire.json_tolerant import dumps_bare

log = logging.getLogger(__name__)

ELECTION_MS = 2_600
"""Callers give up after three seconds."""


def handle_elect(core: ControllerCore, call: ControllerCall) -> Steps:
    """Elect a master, if there is none or an operator names another one."""
    protocol_version = protocol_version_of(call.request)
    group, broker_id, designated, unclean = _read(core, call, protocol_version)
    yield ConfirmLeadership()
    epoch = group.epoch
    if designated:
        yield from _designate(core, group, By(broker_id, unclean), protocol_version)
        elected = group.master == broker_id and group.epoch > epoch
        failed = number(protocol_version, Failure.ELECT)
    else:
        ended = _ended(core, group, broker_id, call.session_id)
        if ended is not None:
            yield Write(ended)
        if not core.context.has_master(group):
            core.elections.wanted_by(group.key, broker_id)
            yield Election(group.key, core.context.now + ELECTION_MS)
        elected = group.epoch > epoch
        asked_by_broker = broker_id >= 1
        failed = number(protocol_version, Failure.ELECT)
        if not asked_by_broker:
            failed = int(ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE)
    if elected:
        return _reply(0, group, protocol_version)
    if core.context.has_master(group) and not (designated and group.master != broker_id):
        return _reply(number(protocol_version, Failure.STILL_MASTER), group, protocol_version)
    raise Refused(failed, f"no master could be elected in group {group.name}; try again")


def _read(
    core: ControllerCore, call: ControllerCall, protocol_version: ProtocolVersion
) -> tuple[BrokerGroup, int, bool, bool]:
    """Return (group, broker id or -1, whether an operator names it, whether a loss is allowed)."""
    if protocol_version is ProtocolVersion.G1:
        old = decode_header(g1.ElectMasterHeaderV50, call.request.ext)
        group = core.context.find(old.clusterName, old.brokerName, call.session_id)
        replica = None if group is None else group.by_addr(old.brokerAddress)
        found, designated, unclean = (-1 if replica is None else replica.id), True, False
    else:
        header = decode_header(g2.ElectMasterHeader, call.request.ext)
        group = core.context.find(header.clusterName, header.brokerName, call.session_id)
        found, designated = header.brokerId, header.designateElect
        unclean = bool(header.uncleanElect)
    if group is None:
        raise Refused(
            number(protocol_version, Failure.UNREGISTERED), "the broker group is not known"
        )
    return group, found, designated, unclean or core.context.unclean_allowed


def _ended(
    core: ControllerCore, group: BrokerGroup, broker_id: int, connection: int
) -> UpdateBroker | None:
    """Return the command that ends a master's role if the master itself asks for an election.

    An EpochMQ master asks only while it does not act as master. If its log already has this epoch,
    it needs a new one (defects, part 2.4). The request must arrive over the connection of its last
    heartbeat; then it is newer than any lease. A request over another connection may be older than
    the present lease.
    """
    live = core.context.live.get(group.key, broker_id)
    if live is None or not live.leased or group.master != broker_id:
        return None
    if live.connection != connection or (group.key, broker_id) in core.recording:
        return None
    if live.report.epoch < group.epoch:
        return None
    live.lease_until = 0
    replica = group.replicas[broker_id]
    return UpdateBroker(
        *group.key,
        broker_id=broker_id,
        address=replica.address,
        session=replica.session,
        learner=replica.learner,
        floor=replica.floor,
        ended=True,
    )


def _designate(
    core: ControllerCore, group: BrokerGroup, by: By, protocol_version: ProtocolVersion
) -> Steps:
    """Check the wanted replica before the master is asked to step down, then wait for
    the change.
    """
    context = core.context
    assert by.wanted is not None
    failed = number(protocol_version, Failure.ELECT)
    replica = group.replicas.get(by.wanted)
    if group.master == by.wanted and context.has_master(group):
        return Reply()
    if replica is None or by.wanted not in context.electable(group.key):
        raise Refused(failed, f"broker {by.wanted} of group {group.name} is not alive")
    if replica.learner:
        raise Refused(failed, f"broker {by.wanted} is a learner and is never elected")
    inside = by.wanted in {*group.members, *group.candidates} or not group.elected
    if not by.unclean and (not inside or replica.unclean):
        raise Refused(
            failed,
            f"broker {by.wanted} is not in the sync-state set {group.members}: messages would be "
            "lost; to agree to that send uncleanElect=true, or set enableElectUncleanMaster",
        )
    log.warning(
        "group %(group)s: broker %(broker_id)d is to be master by command",
        {"group": group.name, "broker_id": by.wanted},
    )
    until_ms = context.now + ELECTION_MS
    core.elections.transfer(group.key, by, until_ms)
    yield Election(group.key, until_ms + 100)
    return Reply()


def _reply(code: int, group: BrokerGroup, protocol_version: ProtocolVersion) -> Reply:
    master = group.master_replica()
    address = None if master is None else master.address
    if protocol_version is ProtocolVersion.G1:
        header: g1.ElectMasterResponseHeaderV50 | g2.ElectMasterResponseHeader = (
            g1.ElectMasterResponseHeaderV50(address, group.epoch, group.set_epoch)
        )
    else:
        header = g2.ElectMasterResponseHeader(
            group.master,
            address,
            group.epoch,
            group.set_epoch,
            uncleanEpoch=group.unclean_epoch or None,
        )
    remark = None if code == 0 else "the master is alive and stays"
    return Reply(code, remark, header, _body(group, protocol_version))


def _body(group: BrokerGroup, protocol_version: ProtocolVersion) -> bytes:
    """Return the members with their ids, for 5.0 with id 0 for the master."""
    shown = protocol_version is ProtocolVersion.G1
    addrs = {
        (shown_id(group, number) if shown else number): replica.address
        for number, replica in sorted(group.replicas.items())
    }
    members = BrokerMemberGroup(group.cluster, group.name, addrs)
    body = ElectedBody(list(group.members), members, group.cluster, group.name, addrs)
    return dumps_bare(body)
