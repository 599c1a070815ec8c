"""Handlers of name servers and controllers behind a check: the servers' users, and nobody else."""

import pytest
from tests.broker.fake_session import FakeSession

from epochmq.auth.access_control import AccessRefused
from epochmq.auth.credentials import Credentials
from epochmq.auth.protected_table import protected
from epochmq.auth.server_keys import ServerAuthKeys
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, Reply

INNER = Credentials("inner", "inner-secret")
ADMIN = Credentials("admin", "admin-secret")
WRITE, READ = int(RequestCode.REGISTER_BROKER), int(RequestCode.GET_ROUTEINFO_BY_TOPIC)
KEYS = ServerAuthKeys(
    authentication_enabled=True,
    init_authentication_user='{"username":"admin","password":"admin-secret"}',
    inner_client_authentication_credentials='{"accessKey":"inner","secretKey":"inner-secret"}',
    allow_plain_authentication=True,
)
TABLE = {code: lambda *_: Reply() for code in (WRITE, READ)}


def ask(keys: ServerAuthKeys, code: int, user: Credentials | None) -> Reply:
    command = Command(code, ext={})
    if user is not None:
        user.sign(command)
    reply = protected(TABLE, keys, {READ})[code](command, FakeSession(), 0)
    assert isinstance(reply, Reply)
    return reply


def test_who_may_write(caplog: pytest.LogCaptureFixture) -> None:
    for user in (INNER, ADMIN):
        assert ask(KEYS, WRITE, user).code == 0
    for user in (None, Credentials("admin", "wrong"), Credentials("alice", "x")):
        with pytest.raises(AccessRefused):
            ask(KEYS, WRITE, user)
        assert "request=REGISTER_BROKER result=denied" in caplog.text
        assert ask(KEYS, READ, user).code == 0


def test_nothing_is_checked_by_default() -> None:
    assert protected(TABLE, ServerAuthKeys(), ()) == TABLE
    assert ask(ServerAuthKeys(), WRITE, None).code == 0
