"""Requests about replication and roles: 905 to 908, 1007, 1008, 34008."""

from epochmq.base.errors import Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.requests.common import NodeHandler, ok
from epochmq.broker.serving.group_position import GroupStatus
from epochmq.broker.serving.roles import Role
from epochmq.wire.bodies.controller_bodies import EpochEntryCache, HARuntimeInfo
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.admin_headers import (
    ExchangeHAInfoAnswer,
    ExchangeHAInfoHeader,
    MasterStateHeader,
    ResetMasterFlushOffsetHeader,
)
from epochmq.wire.session import Session


def handle_exchange(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Exchange addresses of master and slave (EXCHANGE_BROKER_HA_INFO 906).

    A request with `masterHaAddress` comes from a master that tells a slave its address. A request
    without it comes from a slave: a master answers with its addresses. The sender may have been an
    acting master, so the master then also queries its group (`hint`).

    A broker that is not master answers with two flags. `stoodIn`: it was an acting master, and the
    master has not copied its progress back yet. It says so only once it is registered, because
    earlier the master could copy nothing. `standsIn`: it is an acting master now; it also queries
    the name servers, because another slave that is to replace it waits until it stops. Each answer
    has the flush offset, which a Java slave requires.
    """
    header = decode_header(ExchangeHAInfoHeader, command.ext)
    if header.masterHaAddress is not None:
        if node.replica is not None:
            return _returning(node, node.replica, header)
        return Reply()
    if not node.serving.is_master:
        owes = node.replica is not None and node.replica.owes_progress
        stood_in = owes and node.serving.rights.registers
        is_acting = node.serving.role is Role.ACTING_MASTER
        if is_acting and node.replica is not None:
            node.replica.hint()
        answer = ExchangeHAInfoAnswer(
            node.master_flush_offset, stoodIn=stood_in or None, standsIn=is_acting or None
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
    """Process the announcement of a returning master.

    RocketMQ's masters send no `handOver`, which counts as true. The master's flush offset is only
    shown by 907.
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


def handle_master_state(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply | Held:
    """Answer whether this broker serves as master (MASTER_STATE 34008, of a relay).

    With `sinceStamp` and `waitMillis` the request waits for a change, as requests for tables do.
    """

    def answer() -> Reply:
        return Reply(header=_master_state(node))

    kept = node.watchers.hold(
        command,
        now,
        lambda: _master_state(node).stamp,
        lambda: session.answer(command, answer()),
        session.id,
    )
    return HELD if kept else answer()


def _master_state(node: BrokerContext) -> MasterStateHeader:
    rights, epoch = node.serving.rights, node.group_position.epoch
    acting = node.serving.role is Role.ACTING_MASTER
    stamp = f"{epoch}.{int(rights.writable)}{int(acting)}"
    return MasterStateHeader(stamp, rights.writable, acting, epoch, node.options.broker_name)


def handle_smallest_id(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Query the group at once (NOTIFY_MIN_BROKER_ID_CHANGE 905, one-way).

    Any peer can send this request, so its content is not trusted.
    """
    if node.replica is not None:
        node.replica.hint()
    return Reply()


def handle_ha_status(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer the state of replication (GET_BROKER_HA_STATUS 907)."""
    info = node.replica.ha_status() if node.replica is not None else HARuntimeInfo(master=True)
    info.master = node.serving.is_master
    info.master_commit_log_max_offset = node.store.pointers.appended
    info.ha_client_runtime_info.master_flush_offset = node.master_flush_offset
    return ok(info)


def handle_reset_flush_offset(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply:
    """Store the master's flush offset (RESET_MASTER_FLUSH_OFFSET 908), which only 907 shows."""
    header = decode_header(ResetMasterFlushOffsetHeader, command.ext)
    if not node.serving.is_master:
        node.note_master_flush_offset(header.masterFlushOffset)
    return Reply()


def handle_epochs(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer the epochs of the log (GET_BROKER_EPOCH_CACHE 1007); 1 without controller mode."""
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
            confirm_offset=node.store.pointers.confirmed,
        )
    )


def handle_role_changed(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Query the controllers at once (NOTIFY_BROKER_ROLE_CHANGED 1008).

    Any peer can send this request, so its content is not trusted. The answer tells the controller
    that the notice arrived.
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
    RequestCode.MASTER_STATE: handle_master_state,
    RequestCode.RESET_MASTER_FLUSH_OFFSET: handle_reset_flush_offset,
    RequestCode.GET_BROKER_EPOCH_CACHE: handle_epochs,
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED: handle_role_changed,
    RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: handle_smallest_id,
}
