"""Users: name, password, type and status. The password is the key of the user's signatures."""

from dataclasses import dataclass, field
from enum import StrEnum

from epochmq.base import limits


class UserType(StrEnum):
    """A Super user may do everything; a Normal user what policies allow."""

    SUPER = "Super"
    NORMAL = "Normal"


class UserStatus(StrEnum):
    """A disabled user is refused as an unknown one is."""

    ENABLE = "enable"
    DISABLE = "disable"


class BadUser(ValueError):
    """A user that cannot be stored; the text says why, without the password."""


@dataclass(frozen=True, slots=True)
class User:
    """One user. The text form of the object does not contain the password."""

    name: str
    password: str = field(repr=False)
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE


def check_user(name: str, password: str) -> None:
    """Raise `BadUser` unless a user can have this name and password."""
    if not name.strip() or name != name.strip():
        raise BadUser("the user name must not be empty, and must not begin or end with a space")
    if len(name) > limits.USER_NAME_LENGTH_MAX:
        raise BadUser(f"the user name is longer than {limits.USER_NAME_LENGTH_MAX} characters")
    if not name.isprintable():
        raise BadUser("the user name contains a character that cannot be printed")
    if not password:
        raise BadUser("the password must not be empty: signatures need a key")
    if len(password) > limits.PASSWORD_LENGTH_MAX:
        raise BadUser(f"the password is longer than {limits.PASSWORD_LENGTH_MAX} characters")


def parse_user_type(text: str) -> UserType:
    """Read a user type without regard to case; raises `BadUser`."""
    for member in UserType:
        if member.value.lower() == text.strip().lower():
            return member
    raise BadUser(f"user type '{text[:40]}' is not one of {', '.join(UserType)}")


def parse_user_status(text: str) -> UserStatus:
    """Read a user status without regard to case; raises `BadUser`."""
    for member in UserStatus:
        if member.value.lower() == text.strip().lower():
            return member
    raise BadUser(f"user status '{text[:40]}' is not one of {', '.join(UserStatus)}")
