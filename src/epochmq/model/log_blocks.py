"""Blocks of a log for comparison, and the digest of a block.

Brokers compute digests of their own logs (LOG_DIGESTS), and audits compute them of copies. Replicas
are compared by digests, so all must use the same blocks and the same hash (ADR 0037).
"""

import hashlib
from collections.abc import Iterable, Iterator

from epochmq.base.ports import Buffer

DIGEST_BYTES = 16
"""Size of a BLAKE2b-128 digest, long enough that different blocks have different digests."""


def blocks_of(low: int, high: int, size: int) -> Iterator[tuple[int, int]]:
    """Return (offset, bytes) of the blocks of `[low, high)`, cut at multiples of `size`."""
    while low < high:
        end = min(high, (low // size + 1) * size)
        yield low, end - low
        low = end


def digest(parts: Iterable[Buffer]) -> str:
    """Return the digest of a block given in pieces; hashing long pieces releases the GIL."""
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        state.update(part)
    return state.hexdigest()
