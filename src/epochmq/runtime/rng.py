"""Real chance behind `base.ports.Rng`: for spreading load, never for secrets."""

import random
import secrets


class RealRng:
    """Seeded by the operating system, so that two processes do not choose alike."""

    __slots__ = ("_random",)

    def __init__(self) -> None:
        self._random = random.Random()

    def randrange(self, stop: int) -> int:
        """A number in [0, stop); `stop` must be positive."""
        return self._random.randrange(stop)


def random_name() -> str:
    """Text that nobody else draws: for telling processes and copies of data apart."""
    return secrets.token_hex(8)
