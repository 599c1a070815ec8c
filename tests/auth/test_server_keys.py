"""Options of authentication that all servers have."""

import pytest

from epochmq.auth.credentials import Credentials
from epochmq.auth.server_keys import (
    ServerAuthKeys,
    initial_user,
    inner_credentials,
    inner_signer,
    server_problems,
    server_rules,
)
from epochmq.auth.signature import is_signed_by
from epochmq.wire.command import Command

USER = '{"username":"admin","password":"hunter2"}'
INNER = '{"accessKey":"inner","secretKey":"hunter3"}'


def test_a_server_without_credentials_checks_and_signs_nothing() -> None:
    keys = ServerAuthKeys()
    assert server_problems(keys) == []
    assert server_rules(keys) is None
    assert inner_signer(keys) is None
    assert initial_user(keys) is None


def test_a_server_knows_both_users_of_its_options() -> None:
    keys = ServerAuthKeys(
        authentication_enabled=True,
        init_authentication_user=USER,
        inner_client_authentication_credentials=INNER,
    )
    assert server_problems(keys) == []
    rules = server_rules(keys)
    assert rules is not None
    assert rules.supers == (Credentials("inner", "hunter3"), Credentials("admin", "hunter2"))
    assert rules.supers[0] == inner_credentials(keys)
    assert not rules.allows_plain
    signer = inner_signer(keys)
    assert signer is not None
    command = Command(34)
    signer.sign_for(Command(3), int)(command)
    assert is_signed_by(command, "hunter3")
    assert "hunter" not in repr(keys) + repr(rules)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        (ServerAuthKeys(authentication_enabled=True), "needs innerClientAuthenticationCredentials"),
        (ServerAuthKeys(init_authentication_user="hunter2"), "'initAuthenticationUser' must be"),
        (
            ServerAuthKeys(inner_client_authentication_credentials="hunter2"),
            "'innerClientAuthenticationCredentials' must be",
        ),
    ],
)
def test_problems(keys: ServerAuthKeys, problem: str) -> None:
    (found,) = server_problems(keys)
    assert problem in found
    assert "hunter2" not in found
