"""Credentials: the user name and the password with which a process signs its requests."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

import msgspec

from epochmq.auth.connection_signature import (
    CONNECTION_SIGNATURE,
    SIGNED_MS,
    ask_challenge,
    make_connection_signature,
    nonce_of,
)
from epochmq.auth.signature import (
    ACCESS_KEY,
    SECURITY_TOKEN,
    SIGNATURE,
    make_signature,
    signed_content,
)
from epochmq.wire.command import Command
from epochmq.wire.session import Sign


@dataclass(frozen=True, slots=True)
class Credentials:
    """User name and password. The text form of the object does not contain the password."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str = field(default="", repr=False)

    def ask_challenge(self) -> Command:
        """Return the first request of a connection."""
        return ask_challenge()

    def sign_for(self, answer: Command, now_ms: Callable[[], int]) -> Sign:
        """Return what signs the other requests of a connection, after the answer to the first.

        These signatures are bound to the connection if the server can check that, else they are
        RocketMQ's.
        """
        nonce = nonce_of(answer)
        if nonce is None:
            return self.sign
        begun_ms = now_ms()

        def sign(command: Command) -> None:
            ext = command.ext = self._named_fields(command)
            ext[SIGNED_MS] = str(now_ms() - begun_ms)
            ext[CONNECTION_SIGNATURE] = make_connection_signature(nonce, command, self.secret_key)

        return sign

    def sign(self, command: Command) -> None:
        """Add user name and RocketMQ's signature to the header fields of a request."""
        ext = self._named_fields(command)
        content = signed_content(ext, command.body, command.version)
        ext[SIGNATURE] = make_signature(content, self.secret_key)
        command.ext = ext

    def _named_fields(self, command: Command) -> dict[str, str]:
        """Return a copy of the header fields with the user, without earlier signatures."""
        ext = dict(command.ext or ())
        for name in (SIGNATURE, CONNECTION_SIGNATURE, SIGNED_MS):
            ext.pop(name, None)
        ext[ACCESS_KEY] = self.access_key
        if self.security_token:
            ext[SECURITY_TOKEN] = self.security_token
        return ext


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
