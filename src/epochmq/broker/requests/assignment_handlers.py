"""Queue assignment by the broker (400), and the mode of a group: pull or POP (401, 402)."""

from functools import partial

from epochmq.base import limits
from epochmq.base.errors import EnvironmentFault, Refused
from epochmq.broker.consume.queue_assignment import share
from epochmq.broker.consume.route_book import Queues
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.requests.common import NodeHandler, known_group, known_topic, ok
from epochmq.broker.state.saved_files import encode_file
from epochmq.broker.state.stamps import changed_rows
from epochmq.model import names
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.pop_bodies import (
    MODE_POP,
    MODE_PULL,
    MessageQueueAssignment,
    MessageRequestMode,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
)
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.session import Session

BROADCASTING = "BROADCASTING"


def handle_query(node: BrokerContext, command: Command, session: Session, now: int) -> Held:
    """Answer the queues that a consumer gets (QUERY_ASSIGNMENT 400).

    Returns `HELD` and answers when the topic's route is known, usually at once. Raises `Refused`.
    """
    body = decode_body(QueryAssignmentRequest, command.body)
    names.check_topic(body.topic)
    names.check_group(body.consumer_group)
    if not 0 < len(body.client_id) <= limits.CLIENT_ID_LENGTH_MAX:
        raise Refused(ResponseCode.SYSTEM_ERROR, "the client id is empty or too long")
    command.body = b""  # the request may be held; its body is not needed again

    def answer(queues: Queues | None) -> None:
        session.answer(command, ok(_assigned(node, body, queues)))

    node.ports.find_route(body.topic, answer)
    return HELD


def _assigned(
    node: BrokerContext, body: QueryAssignmentRequest, queues: Queues | None
) -> QueryAssignmentResponse:
    mode = mode_of(node, body.topic, body.consumer_group)
    found = None if queues is None else _shared(node, body, mode, queues)
    if found is None:
        return QueryAssignmentResponse()
    return QueryAssignmentResponse(
        [MessageQueueAssignment(queue, mode=mode.mode) for queue in found]
    )


def _shared(
    node: BrokerContext, body: QueryAssignmentRequest, mode: MessageRequestMode, queues: Queues
) -> list[MessageQueue] | None:
    if body.message_model == BROADCASTING or not node.options.server_load_balancer_enable:
        return sorted(queues)
    group = node.consumers.group(body.consumer_group)
    members = [] if group is None else group.client_ids()
    return share(body.client_id, body.strategy_name, mode, queues, members)


def mode_of(node: BrokerContext, topic: str, group: str) -> MessageRequestMode:
    """Return the request mode of a topic and group; retry topics default to pull."""
    known = node.request_modes.get(topic, group)
    if known is not None:
        return known
    mode = node.options.default_message_request_mode
    if names.is_retry_topic(topic):
        mode = MODE_PULL
    sharing = node.options.default_pop_share_queue_num if mode == MODE_POP else 0
    return MessageRequestMode(topic, group, mode=mode, pop_share_queue_num=sharing)


def handle_set(node: BrokerContext, command: Command, session: Session, now: int) -> Held:
    """Set pull or POP mode for a topic and group (SET_MESSAGE_REQUEST_MODE 401).

    Returns `HELD` and answers when the mode is saved. Raises `Refused` 17 or 26 for an unknown
    topic or group.
    """
    row = decode_body(MessageRequestMode, command.body)
    if not names.is_retry_topic(row.topic):
        known_topic(node, row.topic)
        known_group(node, row.consumer_group)
    node.request_modes.put(row)
    table = node.request_modes
    data, table.dirty = encode_file(table), False

    def saved(error: EnvironmentFault | None) -> None:
        reply = Reply()
        if error is not None:
            table.dirty = True
            reply = Reply(ResponseCode.SYSTEM_ERROR, f"the mode cannot be saved: {error}")
        session.answer(command, reply)

    node.ports.write_in_background(
        partial(node.disk.write_file, table.file, data, backup=True), saved
    )
    return HELD


def handle_all(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer the whole table, for replicas (GET_ALL_MESSAGE_REQUEST_MODE 402)."""
    return changed_rows(command, node.started_wall_ms, node.request_modes)


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.QUERY_ASSIGNMENT: handle_query,
    RequestCode.SET_MESSAGE_REQUEST_MODE: handle_set,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: handle_all,
}
