"""Credentials: options that hold them, and requests that they sign."""

import pytest

from epochmq.auth.credentials import (
    Credentials,
    parse_initial_user,
    parse_inner_credentials,
)
from epochmq.auth.signature import is_signed_by
from epochmq.wire.command import Command


def test_a_signed_request_is_accepted_and_can_be_signed_again() -> None:
    command = Command(10, ext={"topic": "T"}, body=b"x")
    for secret in ("one", "two"):  # a request that is repeated elsewhere
        Credentials("alice", secret, "token").sign(command)
        assert is_signed_by(command, secret)
    assert command.ext is not None
    assert command.ext["AccessKey"] == "alice"
    assert command.ext["SecurityToken"] == "token"
    assert command.ext["topic"] == "T"


def test_a_request_without_header_fields_is_signed() -> None:
    command = Command(34, body=b"{}")
    Credentials("alice", "s").sign(command)
    assert is_signed_by(command, "s")


def test_the_password_is_not_shown() -> None:
    assert "hunter2" not in repr(Credentials("alice", "hunter2", "hunter2"))


def test_options() -> None:
    assert parse_initial_user(" ") is None
    assert parse_inner_credentials("") is None
    assert parse_initial_user('{"username":"a","password":"b"}') == Credentials("a", "b")
    text = '{"accessKey":"a","secretKey":"b","securityToken":"c"}'
    assert parse_inner_credentials(text) == Credentials("a", "b", "c")


@pytest.mark.parametrize(
    "text",
    ["hunter2", '{"username":"hunter2"}', '{"username":"","password":"hunter2"}', "[]", '{"a":1'],
)
def test_wrong_options_are_explained_without_the_password(text: str) -> None:
    for parse in (parse_initial_user, parse_inner_credentials):
        with pytest.raises(ValueError, match="must") as error:
            parse(text)
        assert "hunter2" not in str(error.value)
