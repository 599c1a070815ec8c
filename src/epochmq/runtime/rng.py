"""Random numbers (implementation of `base.ports.Rng`), which are not for secrets, and nonces."""

import random
import secrets


class RealRng:
    """Random generator that is seeded by the operating system, so that processes differ."""

    __slots__ = ("_random",)

    def __init__(self) -> None:
        self._random = random.Random()

    def randrange(self, stop: int) -> int:
        """Return a number in [0, stop); `stop` must be positive."""
        return self._random.randrange(stop)


def new_nonce() -> bytes:
    """Return 32 random bytes that nobody can predict."""
    return secrets.token_bytes(32)


def random_name() -> str:
    """Return a unique random text, to distinguish processes and copies of data."""
    return secrets.token_hex(8)
