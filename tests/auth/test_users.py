"""Which names, passwords, types and states a user can have."""

import pytest

from epochmq.auth.users import (
    BadUser,
    UserStatus,
    UserType,
    check_user,
    parse_user_status,
    parse_user_type,
)
from epochmq.base import limits


def test_texts_of_the_tools_are_read_in_any_case() -> None:
    assert parse_user_type("SUPER") is UserType.SUPER
    assert parse_user_type("normal ") is UserType.NORMAL
    assert parse_user_status("Enable") is UserStatus.ENABLE
    assert parse_user_status("DISABLE") is UserStatus.DISABLE
    for parse in (parse_user_type, parse_user_status):
        with pytest.raises(BadUser, match="is not one of"):
            parse("root")


def test_usable_users() -> None:
    check_user("alice", "s")
    check_user("ä b@c", "s" * limits.PASSWORD_LENGTH_MAX)


@pytest.mark.parametrize("name", ["", " ", " a", "a ", "a\n", "a\x1b[0m", "a" * 129])
def test_unusable_names(name: str) -> None:
    with pytest.raises(BadUser, match="user name"):
        check_user(name, "secret")


@pytest.mark.parametrize("password", ["", "s" * (limits.PASSWORD_LENGTH_MAX + 1)])
def test_unusable_passwords(password: str) -> None:
    with pytest.raises(BadUser, match="password"):
        check_user("alice", password)
