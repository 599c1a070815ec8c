"""Signatures of requests, as RocketMQ's clients make them (`AclClientRPCHook`).

A client adds the header field `AccessKey`, the name of its user, and `Signature`: the HMAC-SHA1 of
the values of all other header fields in the order of their names, and of the body, in Base64. The
key is the password of the user.

The signature does not cover the request code, the names of the fields and the opaque, and it has
no time. So a signature that was overheard can be sent again: use TLS where others can listen.
"""

import base64
import hmac
from collections.abc import Mapping

from epochmq.base.ports import Buffer
from epochmq.wire.command import Command

ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"
SECURITY_TOKEN = "SecurityToken"
_UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
_VERSION_4_9_3 = 399
"""Clients up to this version do not sign `_UNIQUE_KEY_QUERY`."""


def signed_content(ext: Mapping[str, str], body: Buffer, version: int) -> bytes:
    """Return the bytes that a signature covers; `version` is the client's version number."""
    names = sorted(ext)
    without = (SIGNATURE, _UNIQUE_KEY_QUERY) if version <= _VERSION_4_9_3 else (SIGNATURE,)
    values = "".join([ext[name] for name in names if name not in without])
    return values.encode("utf-8", "replace") + body


def make_signature(content: bytes, secret: str) -> str:
    """Return the signature of `content`, in Base64."""
    return base64.b64encode(hmac.digest(secret.encode(), content, "sha1")).decode()


def is_signed_by(command: Command, secret: str) -> bool:
    """Return whether `command` has the signature of the user with this password.

    The comparison takes the same time for each wrong signature.
    """
    ext = command.ext or {}
    expected = make_signature(signed_content(ext, command.body, command.version), secret)
    given = ext.get(SIGNATURE, "").encode("utf-8", "replace")
    return hmac.compare_digest(given, expected.encode())
