"""Compares log digests of two replicas, and decides whether a difference is damage.

Below both confirmed offsets the logs of a group have the same bytes (INV-10). A difference is
damage at the side whose bytes are not as they were written, and that side repairs itself. If the
bytes of both sides pass their checks, nobody knows which side is right: the difference is recorded
and reported.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from epochmq.store.scrub import CheckedBlock

EXAMINED_MAX = 16
"""Limit of the blocks that are examined again after one answer; the next round finds the rest."""
DIFFERENCES_MAX = 10_000
STRETCH_BYTES = 8 * 1024 * 1024
"""Bytes of the log that are compared with one member before the next member is used."""


class Compared(NamedTuple):
    """The own blocks that have the same digest at another replica, and those that differ."""

    same: list[CheckedBlock]
    different: list[CheckedBlock]


class Meaning(Enum):
    """The meaning of a block that differs, after the other replica has checked its own block."""

    SAME = "the same by now"
    THEIRS = "damaged, or not confirmed, there"
    UNKNOWN = "the other replica cannot look"
    DIVERGED = "both are sure of their bytes"


def partner(members: Collection[str], start: int, rounds: int) -> str | None:
    """Return the member to compare the block at log offset `start` with; None without members.

    Each round uses another member.
    """
    order = sorted(members)
    return order[(start // STRETCH_BYTES + rounds) % len(order)] if order else None


def compare(seen: Sequence[CheckedBlock], rows: Iterable[tuple[int, int, str]]) -> Compared:
    """Compare own blocks with the rows (offset, bytes, digest) of another replica.

    Blocks that only one side has, or that have other bounds there, are ignored.
    """
    theirs = {(start, size): text for start, size, text in rows}
    known = [one for one in seen if (one.start, one.size) in theirs]
    same = [one for one in known if theirs[one.start, one.size] == one.digest]
    return Compared(same, [one for one in known if one not in same])


def judge(
    own: str, start: int, size: int, rows: Iterable[tuple[int, int, str]], *, verified: bool
) -> Meaning:
    """Return what the second answer means; `own` is the digest of the own, undamaged block."""
    theirs = {(at, count): text for at, count, text in rows}.get((start, size))
    if theirs is None:
        return Meaning.THEIRS
    if theirs == own:
        return Meaning.SAME
    return Meaning.DIVERGED if verified else Meaning.UNKNOWN


class Differences:
    """Blocks that differ from another replica although both sides verified their bytes."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[int, str], int] = {}
        """Size of the block (bytes), by its log offset and the address of the other replica."""
        self.same_bytes = 0
        """Number of bytes that were compared and equal."""

    def __len__(self) -> int:
        return len({start for start, _ in self._blocks})

    def __contains__(self, key: tuple[int, str]) -> bool:
        return key in self._blocks

    @property
    def first(self) -> str:
        """The first difference as text; '' if there is none."""
        if not self._blocks:
            return ""
        (start, address), size = min(self._blocks.items())
        return f"log offsets {start} to {start + size - 1}, compared with {address}"

    @property
    def room(self) -> int:
        """How many more differences can be recorded."""
        return DIFFERENCES_MAX - len(self._blocks)

    def add(self, seen: CheckedBlock, address: str) -> None:
        if self.room:
            self._blocks[seen.start, address] = seen.size

    def clear(self) -> None:
        """Forget all differences, because the log was cut; remaining ones are found again."""
        self._blocks.clear()

    def matched(self, same: Iterable[CheckedBlock], address: str) -> None:
        """These blocks are the same at `address`."""
        for one in same:
            self.same_bytes += one.size
            self._blocks.pop((one.start, address), None)

    def keep(self, start: int, end: int, members: Mapping[int, str]) -> None:
        """Keep only blocks in the log range `[start, end)` and of present members."""
        if self._blocks:
            self._blocks = {
                (at, address): size
                for (at, address), size in self._blocks.items()
                if start <= at and at + size <= end and address in members.values()
            }
