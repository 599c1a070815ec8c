"""Whether a replica's log is a part of its master's: its length, and a digest of its last bytes.

Plain replication has no epochs, and its slaves trust that their log is the master's prefix. It is
not when a master lost its tail with the power and wrote on, or wrote on while the slave was gone:
two records then begin at the same place. As every byte behind that place differs as well, the last
ones that both have tell (H9). Pure; what is asked is LOG_DIGESTS (34005).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from epochmq.base.types import Buffer
from epochmq.model.log_blocks import blocks_of, digest

BLOCK_BYTES = 64 * 1024
WINDOW_BYTES = 4 * BLOCK_BYTES

ADVICE = (
    "Both cannot be right, and nothing is cut by itself. Either the replica's log is to stay: stop"
    " both, exchange their brokerRole and brokerId, move the other store away and start them. Or it"
    " is to go: stop the replica, move its store away and start it again, it copies the master's"
    " log; what is in its store alone is lost then. `epochmq pipeline audit` shows the difference."
)


class CommonRange(NamedTuple):
    """Bytes `[start, end)` that both logs should have in common."""

    start: int
    end: int


def too_long(replica: str, replica_end: int, master: str, master_end: int) -> str:
    """What to say of a replica that has more than its master; empty when it has not."""
    if replica_end <= master_end:
        return ""
    return (
        f"the log of {replica} goes on to {replica_end}, that of its master {master} ends at"
        f" {master_end}: what lies between exists at the replica alone. {ADVICE}"
    )


def window(start: int, end: int, their_end: int) -> CommonRange | None:
    """What to compare of a log of `[start, end)`; None when nothing is common for sure."""
    last = min(end, their_end)
    first = max(start, last - last % BLOCK_BYTES - WINDOW_BYTES)
    return CommonRange(first, last) if first < last else None


def digests(
    compared: CommonRange, read: Callable[[int, int], Buffer]
) -> dict[tuple[int, int], str]:
    """By (offset, bytes) the digests of the own log's blocks; `read` gives what is in one file."""
    found = {}
    for offset, size in blocks_of(compared.start, compared.end, BLOCK_BYTES):
        parts, at = [], offset
        while at < offset + size and len(part := read(at, offset + size - at)):
            parts.append(part)
            at += len(part)
        found[offset, size] = digest(parts)
    return found


def differs(own: dict[tuple[int, int], str], theirs: Sequence[tuple[int, int, str]]) -> int | None:
    """Where the first block begins that is not the same; blocks only one has say nothing."""
    for offset, size, code in theirs:
        if own.get((offset, size), code) != code:
            return offset
    return None


def different(replica: str, master: str, offset: int) -> str:
    """What to say of two logs that differ in the block at `offset`."""
    return (
        f"the logs of {replica} and of its master {master} differ, at {offset} or before. {ADVICE}"
    )
