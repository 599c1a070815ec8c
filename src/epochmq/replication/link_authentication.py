"""Authentication of a replication link: both ends prove that they know the secret of the brokers.

The follower begins. `mac` is HMAC-SHA256 with a key that is derived from the secret:

    follower to master    b"EMQLINK1" | follower's nonce, 32 bytes
    master to follower    b"EMQLINK1" | master's nonce, 32 bytes | mac(b"master", both nonces)
    follower to master    mac(b"follower", both nonces)

Then the frames of the replication protocol follow. These messages are EpochMQ's own. No frame of a
follower begins with these bytes, so that a master can accept both kinds of followers while a group
is changed over. The proof covers the beginning of a link: against peers that can change packets on
the way a link needs TLS (option haTlsMode).
"""

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field

MAGIC = b"EMQLINK1"
NONCE_BYTES = 32
MAC_BYTES = 32
CALL_BYTES = len(MAGIC) + NONCE_BYTES
ANSWER_BYTES = CALL_BYTES + MAC_BYTES


@dataclass(frozen=True, slots=True)
class LinkKeys:
    """What a broker uses to authenticate links."""

    key: bytes = field(repr=False)
    required: bool
    """Whether links without authentication are refused; else they are accepted too."""
    nonce: Callable[[], bytes]
    """Returns `NONCE_BYTES` new random bytes that nobody can predict."""


def derive_key(user: str, secret: str) -> bytes:
    """Return the key of links for the credentials of the brokers."""
    return hmac.digest(secret.encode(), b"epochmq replication link 1\0" + user.encode(), "sha256")


class NotAuthenticated(ValueError):
    """The other end did not prove that it knows the secret."""


class MasterHandshake:
    """The master's side of one link; `begun` is the time of its accept, in monotonic ms."""

    def __init__(self, keys: LinkKeys, begun: int) -> None:
        self.begun = begun
        self._keys = keys
        self._inbox = b""
        self._nonces = b""

    def received(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Process bytes of the follower.

        Returns the bytes to send, and those behind the handshake once it is over, else None. A
        follower that does not authenticate itself is over at its first bytes, if that is allowed.

        Raises:
            NotAuthenticated: the link must be closed.
        """
        inbox = self._inbox = self._inbox + data
        reply = b""
        if not self._nonces:
            if not MAGIC.startswith(inbox[: len(MAGIC)]):
                if self._keys.required:
                    raise NotAuthenticated("it does not authenticate itself")
                return b"", inbox
            if len(inbox) < CALL_BYTES:
                return b"", None
            own = self._keys.nonce()
            self._nonces = inbox[len(MAGIC) : CALL_BYTES] + own
            self._inbox = inbox = inbox[CALL_BYTES:]
            reply = MAGIC + own + _mac(self._keys.key, b"master", self._nonces)
        if len(inbox) < MAC_BYTES:
            return reply, None
        if not _is_equal(inbox[:MAC_BYTES], _mac(self._keys.key, b"follower", self._nonces)):
            raise NotAuthenticated("it does not know the secret")
        return reply, inbox[MAC_BYTES:]


class FollowerHandshake:
    """The follower's side of one link: send `call`, read `ANSWER_BYTES`, send `proof`."""

    def __init__(self, keys: LinkKeys) -> None:
        self._key = keys.key
        self._own = keys.nonce()
        self.call = MAGIC + self._own

    def proof(self, answer: bytes) -> bytes:
        """Return the proof to send, after the master's answer; raises `NotAuthenticated`."""
        nonces = self._own + answer[len(MAGIC) : CALL_BYTES]
        known = answer.startswith(MAGIC) and len(answer) == ANSWER_BYTES
        if not known or not _is_equal(answer[CALL_BYTES:], _mac(self._key, b"master", nonces)):
            raise NotAuthenticated("the master does not know the secret of this broker")
        return _mac(self._key, b"follower", nonces)


def _mac(key: bytes, role: bytes, nonces: bytes) -> bytes:
    return hmac.digest(key, role + nonces, "sha256")


def _is_equal(given: bytes, expected: bytes) -> bool:
    return hmac.compare_digest(given, expected)
