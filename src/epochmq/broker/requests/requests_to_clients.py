"""Requests that the broker passes on to a client, and the client's answers: 223, 307, 309."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from epochmq.base.errors import HeaderError, Refused
from epochmq.broker.consume.client_tables import ClientMember
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.requests.common import NodeHandler, ok
from epochmq.broker.requests.offset_handlers import check_version
from epochmq.model.message_id import BadMessageId, parse_offset_id
from epochmq.wire.bodies.body import decode_answer
from epochmq.wire.bodies.offset_bodies import ConsumerStatusBody
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply, request
from epochmq.wire.header import decode_header
from epochmq.wire.headers.admin_headers import (
    ConsumeDirectlyHeader,
    GetConsumerRunningInfoHeader,
    GetConsumerStatusHeader,
)
from epochmq.wire.session import Session

VERSION_RUNNING_INFO = 62
"""Clients from 3.1.8-SNAPSHOT on answer 307 and 309."""

RELAY_TIMEOUT_MS = 10_000
STATUS_TIMEOUT_MS = 5_000


def handle_running_info(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply | Held:
    """Answer a client's own state (GET_CONSUMER_RUNNING_INFO 307)."""
    header = decode_header(GetConsumerRunningInfoHeader, command.ext)
    member = _member(node, header.consumerGroup, header.clientId)
    return _relay(command, session, member, command.ext or {}, b"")


def handle_consume_directly(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply | Held:
    """Let one client consume one stored message now (CONSUME_MESSAGE_DIRECTLY 309)."""
    header = decode_header(ConsumeDirectlyHeader, command.ext)
    member = _member(node, header.consumerGroup, header.clientId or "")
    ext = {**(command.ext or {}), "brokerName": node.options.broker_name}
    topic = node.topics.get(header.topic or "")
    if topic is not None:
        ext["topicSysFlag"] = str(topic.topic_sys_flag)
    group = node.groups.get(header.consumerGroup)
    if group is not None:
        ext["groupSysFlag"] = str(group.group_sys_flag)
    return _relay(command, session, member, ext, _message(node, header.msgId or ""))


def read_message_to_consume(node: BrokerContext, command: Command) -> None:
    """Read the message that CONSUME_MESSAGE_DIRECTLY names; raises `Refused`, `HeaderError`."""
    header = decode_header(ConsumeDirectlyHeader, command.ext)
    _message(node, header.msgId or "")


def _message(node: BrokerContext, message_id: str) -> bytes:
    try:
        _, _, offset = parse_offset_id(message_id)
    except BadMessageId as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None
    record = node.store.message_at(offset)
    if record is None:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"can not find message by the id, {message_id}")
    return bytes(record)


def _member(node: BrokerContext, group: str, client_id: str) -> ClientMember:
    member = node.consumers.find(group, client_id)
    if member is None:
        text = f"The Consumer <{group}> <{client_id}> not online"
        raise Refused(ResponseCode.SYSTEM_ERROR, text)
    if member.version < VERSION_RUNNING_INFO:
        text = (
            f"The Consumer <{client_id}> Version <{member.version}> too low to finish,"
            " please upgrade it to V3_1_8_SNAPSHOT"
        )
        raise Refused(ResponseCode.SYSTEM_ERROR, text)
    return member


def _relay(
    command: Command, session: Session, member: ClientMember, ext: Mapping[str, str], body: bytes
) -> Held:
    """Send the request to the client and return its answer; 207 after a timeout."""

    def answered(response: Command | None) -> None:
        if response is not None:
            reply = Reply(response.code, response.remark, response.ext, response.body)
        elif member.session.closed:
            text = f"invoke consumer <{member.client_id}> Exception: the connection is closed"
            reply = Reply(ResponseCode.SYSTEM_ERROR, text)
        else:
            text = f"consumer <{member.client_id}> Timeout: {RELAY_TIMEOUT_MS} ms"
            reply = Reply(ResponseCode.CONSUME_MSG_TIMEOUT, text)
        session.answer(command, reply)

    member.session.request(request(command.code, ext, body), RELAY_TIMEOUT_MS, answered)
    return HELD


def handle_status(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply | Held:
    """Answer the offsets in the memory of clients (INVOKE_BROKER_TO_GET_CONSUMER_STATUS 223).

    The answer is sent when each client has answered or timed out; clients without an answer are
    left out.
    """
    header = decode_header(GetConsumerStatusHeader, command.ext)
    group = node.consumers.group(header.group)
    if group is None:
        text = f"No Any Consumer online in the consumer group: [{header.group}]"
        raise Refused(ResponseCode.SYSTEM_ERROR, text)
    wanted = header.clientAddr
    members = [m for m in group.members.values() if not wanted or m.client_id == wanted]
    for member in members:
        check_version(member.version)
    if not members:
        return ok(ConsumerStatusBody())
    survey = _Survey(command, session, len(members))
    question = GetConsumerStatusHeader(header.topic, header.group)
    for member in members:
        survey.ask(member, question)
    return HELD


@dataclass
class _Survey:
    """Collects the answers of several clients to one request."""

    command: Command
    session: Session
    missing: int
    tables: dict[str, dict[str, int]] = field(default_factory=dict)

    def ask(self, member: ClientMember, question: GetConsumerStatusHeader) -> None:
        ask = request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, question)
        client_id = member.client_id
        member.session.request(
            ask, STATUS_TIMEOUT_MS, lambda answer: self.add_answer(client_id, answer)
        )

    def add_answer(self, client_id: str, answer: Command | None) -> None:
        if answer is not None and answer.code == ResponseCode.SUCCESS and len(answer.body):
            try:
                body = decode_answer(ConsumerStatusBody, answer.body)
                self.tables[client_id] = body.message_queue_table
            except HeaderError:
                pass  # A client whose answer cannot be decoded is left out.
        self.missing -= 1
        if self.missing == 0:
            self.session.answer(self.command, ok(ConsumerStatusBody(consumer_table=self.tables)))


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.GET_CONSUMER_RUNNING_INFO: handle_running_info,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: handle_consume_directly,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: handle_status,
}
