"""CONTROLLER_GET_REPLICA_INFO 1004 (brokers poll the master) and GET_METADATA_INFO 1005."""

from epochmq.base.errors import Refused
from epochmq.controller.controller_core import ControllerCore
from epochmq.controller.controller_state import address_set_body, set_body
from epochmq.controller.protocol_version import ProtocolVersion, protocol_version_of
from epochmq.controller.steps import ConfirmLeadership, ControllerCall, Steps
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers import controller_headers as g1
from epochmq.wire.headers import controller_headers as g2
from epochmq.wire.headers.controller_headers import GetMetaDataResponseHeader

UNKNOWN_ID = -1


def handle_replica_info(core: ControllerCore, call: ControllerCall) -> Steps:
    """Return the master and the sync-state set of a group (1004)."""
    yield ConfirmLeadership()
    if protocol_version_of(call.request) is ProtocolVersion.G1:
        return _by_address(core, call)
    header = decode_header(g2.GetReplicaInfoHeader, call.request.ext)
    group = core.context.find(header.clusterName, header.brokerName, call.session_id)
    if group is None:
        raise _unknown(header.brokerName)
    master = group.master_replica()
    answer = g2.GetReplicaInfoResponseHeader(masterEpoch=group.epoch)
    answer.uncleanEpoch = group.unclean_epoch or None
    if master is not None:
        answer.masterBrokerId = master.id
        answer.masterAddress = master.address
        answer.masterHaAddress = master.ha_address or None
    return Reply(header=answer, body=set_body(group))


def _by_address(core: ControllerCore, call: ControllerCall) -> Reply:
    header = decode_header(g1.GetReplicaInfoHeaderV50, call.request.ext)
    group = core.context.find(None, header.brokerName, call.session_id)
    if group is None:
        raise _unknown(header.brokerName)
    master = group.master_replica()
    caller = group.by_addr(header.brokerAddress)
    answer = g1.GetReplicaInfoResponseHeaderV50(
        masterAddress="" if master is None else master.address,
        masterEpoch=group.epoch,
        brokerId=UNKNOWN_ID if caller is None else caller.id,
    )
    return Reply(header=answer, body=address_set_body(group))


def _unknown(name: str) -> Refused:
    return Refused(
        ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, f"broker group {name} is not known"
    )


# Metadata ------------------------------------------------------------------------------------
# CONTROLLER_GET_METADATA_INFO 1005: the leader. Every controller answers at once.


def handle_metadata(core: ControllerCore, call: ControllerCall) -> Reply:
    """Return the leader, if it is known; a new leader names itself only when it has taken over."""
    context = core.context
    leader = context.leader_id
    if leader == context.peers.self_id and not context.leads:
        leader = None
    header = GetMetaDataResponseHeader(
        group=context.peers.group,
        controllerLeaderId=leader,
        controllerLeaderAddress=None if leader is None else context.peers.addresses.get(leader),
        isLeader=context.leads,
        peers=context.peers.shown(),
    )
    return Reply(header=header)
