"""Decides what the digests of another replica mean.

Below both confirmed offsets the logs of a group are the same bytes (INV-10). A difference is damage
at the side whose bytes are not what was written there, and that side repairs itself. Where both
sides are sure of theirs nobody knows who is right: then the difference is kept, and shown.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from epochmq.store.scrub import CheckedBlock

EXAMINED_MAX = 16
"""Blocks looked at a second time after one answer; the next round finds the others."""
DIFFERENCES_MAX = 10_000
STRETCH_BYTES = 8 * 1024 * 1024
"""So much of the log is compared with one member, the next with another."""


class Compared(NamedTuple):
    """What one answer says of the blocks that were seen here."""

    same: list[CheckedBlock]
    different: list[CheckedBlock]


class Meaning(Enum):
    """Of a block that differs and is sound here, once the other replica has looked at its own."""

    SAME = "the same by now"
    THEIRS = "damaged, or not confirmed, there"
    UNKNOWN = "the other replica cannot look"
    DIVERGED = "both are sure of their bytes"


def partner(members: Collection[str], start: int, rounds: int) -> str | None:
    """Whom to compare the block at `start` with: another member in each round."""
    order = sorted(members)
    return order[(start // STRETCH_BYTES + rounds) % len(order)] if order else None


def compare(seen: Sequence[CheckedBlock], rows: Iterable[tuple[int, int, str]]) -> Compared:
    """`rows`: offset, bytes and digest, as the other replica has them. What only one side has, or
    is cut in another way, says nothing."""
    theirs = {(start, size): text for start, size, text in rows}
    known = [one for one in seen if (one.start, one.size) in theirs]
    same = [one for one in known if theirs[one.start, one.size] == one.digest]
    return Compared(same, [one for one in known if one not in same])


def judge(
    own: str, start: int, size: int, rows: Iterable[tuple[int, int, str]], *, verified: bool
) -> Meaning:
    """What the second answer means; `own` is the digest of the block that is sound here."""
    theirs = {(at, count): text for at, count, text in rows}.get((start, size))
    if theirs is None:
        return Meaning.THEIRS
    if theirs == own:
        return Meaning.SAME
    return Meaning.DIVERGED if verified else Meaning.UNKNOWN


class Differences:
    """Blocks that another replica has other bytes of, while both are sure of theirs."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[int, str], int] = {}
        """The block's bytes, by where it begins and the other replica's address."""
        self.same_bytes = 0
        """Bytes that another replica had as well."""

    def __len__(self) -> int:
        return len({start for start, _ in self._blocks})

    def __contains__(self, key: tuple[int, str]) -> bool:
        return key in self._blocks

    @property
    def first(self) -> str:
        """The first one in words; '' for none."""
        if not self._blocks:
            return ""
        (start, address), size = min(self._blocks.items())
        return f"log offsets {start} to {start + size - 1}, compared with {address}"

    @property
    def room(self) -> int:
        """How many more are remembered."""
        return DIFFERENCES_MAX - len(self._blocks)

    def add(self, seen: CheckedBlock, address: str) -> None:
        if self.room:
            self._blocks[seen.start, address] = seen.size

    def clear(self) -> None:
        """The log was cut: what still differs is found again."""
        self._blocks.clear()

    def matched(self, same: Iterable[CheckedBlock], address: str) -> None:
        """These blocks are the same at `address`."""
        for one in same:
            self.same_bytes += one.size
            self._blocks.pop((one.start, address), None)

    def keep(self, start: int, end: int, members: Mapping[int, str]) -> None:
        """Forget what is not in the log `[start, end)` any more, and members that are gone."""
        if self._blocks:
            self._blocks = {
                (at, address): size
                for (at, address), size in self._blocks.items()
                if start <= at and at + size <= end and address in members.values()
            }
