"""Signatures that are bound to one connection, EpochMQ's own: nobody can send a request again.

A client first asks for a challenge (AUTH_CHALLENGE, 34011), and the server answers with the header
field `nonce`, 32 random bytes in hexadecimal. From then on the client adds these header fields:

    AccessKey            the name of its user
    SignedMs             milliseconds since the client got the challenge
    ConnectionSignature  HMAC-SHA256, in Base64, of

        b"EMQSIGN1" | nonce | code, opaque, flag: 3 x int32, big endian
        for each other header field in the order of the names:
            size of the name, size of the value: 2 x uint32, big endian | name | value
        body

The key is HMAC-SHA256 of b"epochmq request signature 1" with the password as key. A server accepts
a signature only on the connection of its challenge, only with opaques that increase, and only
within `DELAY_MAX_MS`. A server that does not know challenges refuses the request, and the client
uses RocketMQ's signatures (`signature.py`) on that connection.
"""

import base64
import hmac
import struct
from collections.abc import Callable, Mapping
from functools import lru_cache

from epochmq.base.ports import Buffer
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Held, Reply, request
from epochmq.wire.dispatcher import Handler
from epochmq.wire.session import Challenge, Session

CONNECTION_SIGNATURE = "ConnectionSignature"
SIGNED_MS = "SignedMs"
NONCE = "nonce"
NONCE_BYTES = 32
DELAY_MAX_MS = 60_000
"""How long a request may be under way. A thousandth of the age of the challenge is added, since
two clocks drift."""
_MAGIC = b"EMQSIGN1"
_KEY_OF = b"epochmq request signature 1"
_OPAQUE_MASK = 0x7FFFFFFF
_OPAQUE_AHEAD_MAX = 1 << 30
"""An opaque that is ahead by more counts as one of the past, because opaques wrap around."""
_HEAD = struct.Struct(">iii")
_SIZES = struct.Struct(">II")


@lru_cache(maxsize=4_096)
def derive_key(secret: str) -> bytes:
    """Return the key of signatures for a password."""
    return hmac.digest(secret.encode(), _KEY_OF, "sha256")


def covered_content(nonce: bytes, command: Command) -> bytes:
    """Return the bytes that the signature of a request covers."""
    parts: list[Buffer] = [_MAGIC, nonce, _HEAD.pack(command.code, command.opaque, command.flag)]
    ext = command.ext or {}
    for name in sorted(ext):
        if name != CONNECTION_SIGNATURE:
            pair = name.encode("utf-8", "replace"), ext[name].encode("utf-8", "replace")
            parts += (_SIZES.pack(len(pair[0]), len(pair[1])), *pair)
    parts.append(command.body)
    return b"".join(parts)


def make_connection_signature(nonce: bytes, command: Command, secret: str) -> str:
    """Return the signature of a request, in Base64."""
    digest = hmac.digest(derive_key(secret), covered_content(nonce, command), "sha256")
    return base64.b64encode(digest).decode()


# The client's side ---------------------------------------------------------------------------


def ask_challenge() -> Command:
    """Return the first request of a connection."""
    return request(RequestCode.AUTH_CHALLENGE)


def nonce_of(answer: Command) -> bytes | None:
    """Return the nonce of a challenge; None if the server knows no challenges."""
    if answer.code != ResponseCode.SUCCESS:
        return None
    try:
        nonce = bytes.fromhex((answer.ext or {}).get(NONCE, ""))
    except ValueError:
        return None
    return nonce if len(nonce) == NONCE_BYTES else None


# The server's side ---------------------------------------------------------------------------


def challenge_handler(new_nonce: Callable[[], bytes]) -> Handler:
    """Return the handler of AUTH_CHALLENGE; a connection can ask for one challenge only."""

    def handle(command: Command, session: Session, now: int) -> Reply | Held:
        if session.challenge is None:
            session.challenge = Challenge(new_nonce(), now, command.opaque)
            return Reply(header={NONCE: session.challenge.nonce.hex()})
        return Reply(ResponseCode.SYSTEM_ERROR, "this connection has a challenge already")

    return handle


def has_connection_signature(ext: Mapping[str, str] | None) -> bool:
    """Return whether a request claims to be signed for its connection."""
    return ext is not None and CONNECTION_SIGNATURE in ext


def signature_problem(command: Command, session: Session, secret: str, now: int) -> str:
    """Return why the signature of `command` is refused; empty if it is accepted.

    `now` is monotonic ms. An accepted opaque is noted, so that it cannot be used again. The
    connection of a repeated or delayed request is closed: its client makes a new one, with a new
    challenge, and nobody else has to get an answer. The comparison takes the same time for each
    wrong signature.
    """
    challenge = session.challenge
    if challenge is None:
        return "signed for another connection"
    expected = make_connection_signature(challenge.nonce, command, secret)
    given = (command.ext or {})[CONNECTION_SIGNATURE].encode("utf-8", "replace")
    if not hmac.compare_digest(given, expected.encode()):
        return "wrong signature"
    ahead = (command.opaque - challenge.last_opaque) & _OPAQUE_MASK
    problem = ""
    if not 0 < ahead < _OPAQUE_AHEAD_MAX:
        problem = "repeated"
    elif not is_timely((command.ext or {}).get(SIGNED_MS, ""), now - challenge.made_ms):
        problem = "delayed"
    if problem:
        session.close(f"a request of this connection was {problem}")
        return problem
    challenge.last_opaque = command.opaque
    return ""


def is_timely(signed_ms: str, age_ms: int) -> bool:
    """Return whether a request was signed in time; `age_ms` is the age of the challenge."""
    if not (signed_ms.isascii() and signed_ms.isdecimal() and len(signed_ms) <= 18):
        return False
    return abs(age_ms - int(signed_ms)) <= delay_max_ms(age_ms)


def delay_max_ms(age_ms: int) -> int:
    """Return how long a request may be under way, on a connection whose challenge has this age."""
    return DELAY_MAX_MS + age_ms // 1000
