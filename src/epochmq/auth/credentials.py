"""Credentials: the user name and the password with which a process signs its requests."""

from contextvars import ContextVar
from dataclasses import dataclass, field

import msgspec

from epochmq.auth.signature import (
    ACCESS_KEY,
    SECURITY_TOKEN,
    SIGNATURE,
    make_signature,
    signed_content,
)
from epochmq.wire.command import Command


@dataclass(frozen=True, slots=True)
class Credentials:
    """User name and password. The text form of the object does not contain the password."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str = field(default="", repr=False)

    def sign(self, command: Command) -> None:
        """Add user name and signature to the header fields of a request."""
        ext = dict(command.ext or ())
        ext[ACCESS_KEY] = self.access_key
        if self.security_token:
            ext[SECURITY_TOKEN] = self.security_token
        content = signed_content(ext, command.body, command.version)
        ext[SIGNATURE] = make_signature(content, self.secret_key)
        command.ext = ext


outgoing_credentials: ContextVar[Credentials | None] = ContextVar(
    "outgoing_credentials", default=None
)
"""Credentials of clients that were given none; the command line sets them for all its clients."""


class _UserJson(msgspec.Struct):
    username: str
    password: str


class _InnerJson(msgspec.Struct):
    accessKey: str
    secretKey: str
    securityToken: str = ""


def parse_initial_user(text: str) -> Credentials | None:
    """Return the value of `initAuthenticationUser`; None for an empty text.

    Raises `ValueError`, without quoting the text, which contains a password.
    """
    if not text.strip():
        return None
    try:
        found = msgspec.json.decode(text, type=_UserJson)
    except msgspec.DecodeError:
        raise ValueError('must be JSON as {"username":"admin","password":"..."}') from None
    return _complete(found.username, found.password)


def parse_inner_credentials(text: str) -> Credentials | None:
    """Return the value of `innerClientAuthenticationCredentials`; None for an empty text.

    Raises `ValueError`, without quoting the text, which contains a password.
    """
    if not text.strip():
        return None
    try:
        found = msgspec.json.decode(text, type=_InnerJson)
    except msgspec.DecodeError:
        raise ValueError('must be JSON as {"accessKey":"inner","secretKey":"..."}') from None
    return _complete(found.accessKey, found.secretKey, found.securityToken)


def _complete(name: str, password: str, token: str = "") -> Credentials:
    if not name.strip() or not password:
        raise ValueError("the name and the password must not be empty")
    return Credentials(name, password, token)
