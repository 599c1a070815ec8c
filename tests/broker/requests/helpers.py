"""Calling a handler the way a connection does."""

from typing import Any

import msgspec
from tests.broker.fake_session import FakeSession

from epochmq.base.errors import HeaderError, Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.requests.request_table import REQUEST_TABLE
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, Held, Reply, encode_reply
from epochmq.wire.header import Header, encode_header


def call(
    node: BrokerContext,
    code: int,
    header: Header | dict[str, str] | None = None,
    body: object = b"",
    *,
    session: FakeSession | None = None,
    now: int = 0,
    version: int = 401,
    language: str = "JAVA",
) -> Reply | Held:
    """The handler's reply; what it refuses becomes a reply as the dispatcher makes it."""
    ext = encode_header(header) if isinstance(header, Header) else header
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    command = Command(code, ext=ext, body=data, version=version, language=language)
    try:
        reply = REQUEST_TABLE[code](node, command, session or FakeSession(), now)
    except Refused as error:
        return Reply(error.code, error.remark)
    except HeaderError as error:
        return Reply(ResponseCode.SYSTEM_ERROR, str(error))
    if isinstance(reply, Reply):
        # It must be possible to send it, whatever it is.
        encode_reply(command, reply)
    return reply


def answer(node: BrokerContext, code: int, *args: Any, **more: Any) -> Reply:
    """The reply of a handler that answers at once, or after a write, which tests make at once."""
    session: FakeSession = more.setdefault("session", FakeSession())
    reply = call(node, code, *args, **more)
    if not isinstance(reply, Reply) and session.replies:
        reply = session.replies.pop()
    assert isinstance(reply, Reply)
    return reply


def json_of(reply: Reply) -> Any:
    """The JSON body of a success."""
    assert reply.code == ResponseCode.SUCCESS, (reply.code, reply.remark)
    assert isinstance(reply.body, bytes)
    return msgspec.json.decode(reply.body)


def ext_of(reply: Reply) -> dict[str, str]:
    """The header of a reply as it travels."""
    assert isinstance(reply.header, Header)
    return encode_header(reply.header)


def bytes_of(reply: Reply) -> bytes:
    """The body of a reply, joined."""
    body = reply.body
    return bytes(body) if isinstance(body, bytes | memoryview) else b"".join(map(bytes, body))
