"""CONTROLLER_GET_METADATA_INFO 1005: who leads; every controller answers, at once."""

from epochmq.controller.controller_core import ControllerCore
from epochmq.controller.steps import ControllerCall
from epochmq.wire.command import Reply
from epochmq.wire.headers.controller_headers import GetMetaDataResponseHeader


def handle_metadata(core: ControllerCore, call: ControllerCall) -> Reply:
    """The leader is named by whoever knows it; who leads says so only when it has taken over."""
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
