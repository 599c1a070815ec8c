"""What a member notes of every message it was given, in a file that survives its SIGKILL.

Layout, big-endian, 21 bytes: carrier (2 bytes of ASCII), number (4), born (8, wall ms), received
(7 bytes would do; 8, wall us) - in the order received. Written with one system call for each batch,
before the batch counts as consumed: what the broker believes consumed is always noted.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_LAYOUT = struct.Struct(">2sIQQ")
SIZE = _LAYOUT.size


@dataclass(frozen=True, slots=True)
class Received:
    """One delivery; `received_us` is wall time in microseconds, `born_ms` in milliseconds."""

    carrier: str
    number: int
    born_ms: int
    received_us: int

    @property
    def latency_ms(self) -> float:
        """From the send call to the listener, never below 0."""
        return max(0.0, self.received_us / 1_000 - self.born_ms)


def key_of(carrier: str, number: int) -> str:
    """The index key that a flight is sent with."""
    return f"{carrier}-{number}"


def encode(key: str, born_ms: int, received_us: int) -> bytes:
    """One record, from a message's index key."""
    carrier, _, number = key.rpartition("-")
    return _LAYOUT.pack(carrier.encode("ascii"), int(number), born_ms, received_us)


def decode(data: bytes) -> Iterator[Received]:
    """All whole records of `data`; a torn last one is left out."""
    whole = len(data) - len(data) % SIZE
    for carrier, number, born_ms, received_us in _LAYOUT.iter_unpack(data[:whole]):
        yield Received(carrier.decode("ascii"), number, born_ms, received_us)
