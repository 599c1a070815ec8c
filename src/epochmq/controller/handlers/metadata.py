"""CONTROLLER_GET_METADATA_INFO 1005: who leads; every controller answers, at once."""

from epochmq.controller.core import ControllerCore
from epochmq.controller.steps import Call
from epochmq.wire.command import Reply
from epochmq.wire.headers.controller import GetMetaDataResponseHeader


def handle_metadata(core: ControllerCore, call: Call) -> Reply:
    """The leader is named by whoever knows it; who leads says so only when it has taken over."""
    desk = core.desk
    leader = desk.leader_id
    if leader == desk.peers.self_id and not desk.leads:
        leader = None
    header = GetMetaDataResponseHeader(
        group=desk.peers.group,
        controllerLeaderId=leader,
        controllerLeaderAddress=None if leader is None else desk.peers.addresses.get(leader),
        isLeader=desk.leads,
        peers=desk.peers.shown(),
    )
    return Reply(header=header)
