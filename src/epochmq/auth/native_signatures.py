"""Signatures of sends that the native code checks: `native/signatures.c`.

The native code knows grants: a user, with the keys of the user's password, may send to one topic
from one place. It accepts sends that a grant allows and whose signature is right. Everything else
is left to Python, which decides, answers and logs.
"""

import ctypes
import hashlib

from epochmq.auth.connection_signature import delay_max_ms, derive_key
from epochmq.base.limits import HEADER_BYTES_MAX
from epochmq.base.ports import Buffer
from epochmq.native.libcrypto import HASH_FUNCTIONS, hash_functions
from epochmq.native.library import Library
from epochmq.native.memory import NativeMemory
from epochmq.wire.session import Challenge

_BLOCK_BYTES = 64


class AccessArgs(ctypes.Structure):
    """The first fields of `access` of signatures.h; the others are private to C."""

    _fields_ = [
        ("place_at", ctypes.c_char_p), ("place_size", ctypes.c_int64),
        ("nonce", ctypes.c_char_p),
        *((name, ctypes.c_int64) for name in ("last_opaque", "age", "delay_max", "own_only")),
        *((name, ctypes.c_void_p) for name in HASH_FUNCTIONS),
    ]  # fmt: skip


MIRRORED = {"access_front": ctypes.sizeof(AccessArgs)}


class NativeSignatures:
    """The grants, and the session whose bytes are read next."""

    def __init__(
        self, library: Library, functions: tuple[int, ...], *, connection_signatures_only: bool
    ) -> None:
        library.check_sizes(MIRRORED)
        self._library = library
        self._memory = NativeMemory(library.access_bytes(HEADER_BYTES_MAX))
        self.address: int = self._memory.address
        """Of the native structure, for `SendRun.stage_raw`."""
        self._args = AccessArgs.from_address(self.address)
        for name, function in zip(HASH_FUNCTIONS, functions, strict=True):
            setattr(self._args, name, function)
        self._args.own_only = connection_signatures_only
        self._signers: dict[str, int] = {}
        self.has_grants: bool = False

    def clear(self) -> None:
        """Remove all grants and keys."""
        self._library.access_clear(self.address)
        self._signers.clear()
        self.has_grants = False

    def grant(self, user: str, secret: str, topic: str, place: bytes) -> None:
        """Let `user`, who has the password `secret`, send to `topic` from `place`.

        When there is no room, all earlier grants are removed.
        """
        text = b"\0".join((user.encode(), topic.encode(), place))
        if not self._has_room_for(user, secret, text):
            self.clear()
            self._has_room_for(user, secret, text)

    def _has_room_for(self, user: str, secret: str, text: bytes) -> bool:
        number = self._signers.get(user)
        if number is None:
            keys = _block(secret.encode(), "sha1"), _block(derive_key(secret), "sha256")
            number = self._library.access_add_signer(self.address, *keys)
            if number < 0:
                return False
            self._signers[user] = number
        if not self._library.access_grant(self.address, number, text, len(text)):
            return False
        self.has_grants = True
        return True

    def look_at(self, place: bytes, challenge: Challenge | None, now: int) -> None:
        """Check the next bytes as those of a session at `place`; `now` is monotonic ms."""
        args = self._args
        args.place_at, args.place_size = place, len(place)
        if challenge is None:
            args.nonce = None
            return
        args.nonce = challenge.nonce
        args.last_opaque = challenge.last_opaque
        args.age = age = now - challenge.made_ms
        args.delay_max = delay_max_ms(age)

    def note(self, challenge: Challenge) -> None:
        """Note in the challenge of the session which signatures were accepted."""
        challenge.last_opaque = self._args.last_opaque


def make_native_signatures(
    library: Library | None, *, connection_signatures_only: bool
) -> NativeSignatures | None:
    """Return the checks; None without native code or without libcrypto."""
    functions = hash_functions()
    if library is None or functions is None:
        return None
    return NativeSignatures(
        library, functions, connection_signatures_only=connection_signatures_only
    )


def place_of(host: str, *, encrypted: bool) -> bytes:
    """Return what a grant is for: sessions of an address, encrypted ones or others."""
    return f"{host} {encrypted:d}".encode()


def _block(key: Buffer, algorithm: str) -> bytes:
    """Return the key of an HMAC, padded to a block of the hash."""
    if len(key) > _BLOCK_BYTES:
        key = hashlib.new(algorithm, key).digest()
    return bytes(key).ljust(_BLOCK_BYTES, b"\0")
