"""Handlers of name servers and controllers behind a check: the servers' users, and nobody else."""

from contextlib import suppress

import pytest
from tests.broker.fake_session import FakeSession

from epochmq.auth.access_control import AccessRefused
from epochmq.auth.credentials import Credentials
from epochmq.auth.protected_table import protected
from epochmq.auth.server_keys import ServerAuthKeys
from epochmq.base.errors import Refused
from epochmq.runtime.rng import new_nonce
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
CHANGE = int(RequestCode.PUT_KV_CONFIG)
TABLE = {code: lambda *_: Reply() for code in (WRITE, READ, CHANGE)}


def ask(keys: ServerAuthKeys, code: int, user: Credentials | None) -> Reply:
    command = Command(code, ext={"key": "k", "value": "hunter2"})
    if user is not None:
        user.sign(command)
    reply = protected(TABLE, keys, {READ}, {CHANGE}, new_nonce)[code](command, FakeSession(), 0)
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
    challenge = {int(RequestCode.AUTH_CHALLENGE)}
    table = protected(TABLE, ServerAuthKeys(), (), (), new_nonce)
    assert {code: table[code] for code in table.keys() - challenge} == TABLE
    assert ask(ServerAuthKeys(), WRITE, None).code == 0


@pytest.mark.parametrize(("keys", "name"), [(KEYS, "admin"), (ServerAuthKeys(), "-")])
def test_changes_are_in_the_audit_log(
    keys: ServerAuthKeys, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    ask(keys, CHANGE, ADMIN)
    (line,) = caplog.messages
    assert line.startswith(f"user={name} from=")
    assert line.endswith("request=PUT_KV_CONFIG on=key=k result=accepted")
    caplog.clear()
    ask(keys, WRITE, INNER)
    assert caplog.messages == []


@pytest.mark.parametrize(("reply", "result"), [(Reply(1, "no"), "no"), (None, "bad key")])
def test_changes_that_fail_are_in_it_too(
    reply: Reply | None, result: str, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(*_: object) -> Reply:
        if reply is None:
            raise Refused(1, "bad key")
        return reply

    caplog.set_level("INFO")
    found = protected({CHANGE: handle}, ServerAuthKeys(), (), {CHANGE}, new_nonce)
    with suppress(Refused):
        found[CHANGE](Command(CHANGE, ext={}), FakeSession(), 0)
    assert caplog.messages[-1].endswith(f"result=refused: {result}")
