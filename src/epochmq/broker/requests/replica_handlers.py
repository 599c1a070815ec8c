"""Replicas and roles over the wire: 905 to 908, 1007, 1008."""

from epochmq.base.errors import Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.requests.common import NodeHandler, ok
from epochmq.broker.serving.group_position import GroupStatus
from epochmq.broker.serving.roles import Role
from epochmq.wire.bodies.controller_bodies import EpochEntryCache, HARuntimeInfo
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.admin_headers import (
    ExchangeHAInfoAnswer,
    ExchangeHAInfoHeader,
    ResetMasterFlushOffsetHeader,
)
from epochmq.wire.session import Session


def handle_exchange(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """EXCHANGE_BROKER_HA_INFO 906: where the master is reached by replicas.

    A Java slave cannot do without the flush offset, so it is in every answer. With an address it is
    a master that tells a slave where it is. A slave that only asks its master may have stood in for
    it: the master asks back. It is told so once we are among the members: before that it could not
    take anything back. Another slave that is to stand in asks as well, and waits until we cease: we
    ask the name servers now.
    """
    header = decode_header(ExchangeHAInfoHeader, command.ext)
    if header.masterHaAddress is not None:
        if node.replica is not None:
            return _returning(node, node.replica, header)
        return Reply()
    if not node.serving.is_master:
        owes = node.replica is not None and node.replica.owes_progress
        stood_in = owes and node.serving.rights.registers
        stands_in = node.serving.role is Role.ACTING_MASTER
        if stands_in and node.replica is not None:
            node.replica.hint()
        answer = ExchangeHAInfoAnswer(
            node.master_flush_offset, stoodIn=stood_in or None, standsIn=stands_in or None
        )
        return Reply(header=answer)
    if node.replica is not None:
        node.replica.hint()
    return Reply(
        header=ExchangeHAInfoHeader(
            masterHaAddress=node.ha_address,
            masterFlushOffset=node.started_at_offset,
            masterAddress=node.address,
        )
    )


def _returning(node: BrokerContext, replica: GroupStatus, header: ExchangeHAInfoHeader) -> Reply:
    """A master announces its return; one of RocketMQ's says nothing of a hand-over, and means it.

    Its flush offset is shown by 907 only.
    """
    wanted = node.options.sync_master_flush_offset_when_startup and not node.serving.is_master
    if wanted and not node.master_flush_offset:
        node.note_master_flush_offset(header.masterFlushOffset or 0)
    stepped_down = replica.master_returns(
        header.masterAddress or "",
        header.masterHaAddress or "",
        hand_over=header.handOver is not False,
    )
    return Reply(header=ExchangeHAInfoAnswer(node.master_flush_offset, stepped_down))


def handle_smallest_id(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """NOTIFY_MIN_BROKER_ID_CHANGE 905, one-way: no more than a reason to ask at once.

    Whoever reaches the port can send it, so what it says is not believed.
    """
    if node.replica is not None:
        node.replica.hint()
    return Reply()


def handle_ha_status(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """GET_BROKER_HA_STATUS 907."""
    info = node.replica.ha_status() if node.replica is not None else HARuntimeInfo(master=True)
    info.master = node.serving.is_master
    info.master_commit_log_max_offset = node.store.pointers.appended
    info.ha_client_runtime_info.master_flush_offset = node.master_flush_offset
    return ok(info)


def handle_reset_flush_offset(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply:
    """RESET_MASTER_FLUSH_OFFSET 908: shown by 907, used for nothing, as upstream."""
    header = decode_header(ResetMasterFlushOffsetHeader, command.ext)
    if not node.serving.is_master:
        node.note_master_flush_offset(header.masterFlushOffset)
    return Reply()


def handle_epochs(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """GET_BROKER_EPOCH_CACHE 1007; refused without a controller, as by 5.3."""
    options = node.options
    if node.replica is None or not options.enable_controller_mode:
        raise Refused(
            ResponseCode.SYSTEM_ERROR, "this broker has no epochs: it is not in controller mode"
        )
    return ok(
        EpochEntryCache(
            cluster_name=options.broker_cluster_name,
            broker_name=options.broker_name,
            broker_id=node.group_position.own_id,
            epoch_list=node.replica.epochs(),
            max_offset=node.store.pointers.appended,
        )
    )


def handle_role_changed(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """NOTIFY_BROKER_ROLE_CHANGED 1008: an answer tells the controller that it was heard.

    Whoever reaches the port can send it, so it is no more than a reason to ask the controllers.
    """
    if node.replica is None or not node.options.enable_controller_mode:
        raise Refused(ResponseCode.SYSTEM_ERROR, "this broker is not in controller mode")
    name = (command.ext or {}).get("brokerName", node.options.broker_name)
    if name != node.options.broker_name:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"this is not broker {name[:64]}")
    node.replica.role_changed(now)
    return Reply()


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.EXCHANGE_BROKER_HA_INFO: handle_exchange,
    RequestCode.GET_BROKER_HA_STATUS: handle_ha_status,
    RequestCode.RESET_MASTER_FLUSH_OFFSET: handle_reset_flush_offset,
    RequestCode.GET_BROKER_EPOCH_CACHE: handle_epochs,
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED: handle_role_changed,
    RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: handle_smallest_id,
}
