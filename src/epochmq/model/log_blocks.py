"""How a log is cut into blocks for comparison, and the digest of one.

Brokers compute it of their own logs (LOG_DIGESTS), audits of copies of them: replicas are compared
by these numbers, so both sides must cut and hash alike (ADR 0037).
"""

import hashlib
from collections.abc import Iterable, Iterator

from epochmq.base.ports import Buffer

DIGEST_BYTES = 16
"""BLAKE2b-128: no damage and no chance makes two blocks equal that are not."""


def blocks_of(low: int, high: int, size: int) -> Iterator[tuple[int, int]]:
    """(offset, bytes) of the blocks of `[low, high)`, cut at multiples of `size`."""
    while low < high:
        end = min(high, (low // size + 1) * size)
        yield low, end - low
        low = end


def digest(parts: Iterable[Buffer]) -> str:
    """The digest of a block that lies in pieces; long ones are hashed without Python's lock."""
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        state.update(part)
    return state.hexdigest()
