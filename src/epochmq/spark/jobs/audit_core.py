"""The rules of the audit: compares replicas of one broker group up to the confirmed offset. No I/O.

Below the confirmed offset, all replicas with a byte have the same one, written by the same master
epoch (INV-13). After it they may differ until the group agrees. So the log is cut into spans in
which the same replicas have all bytes. In each span the digests of aligned blocks are compared, and
only blocks that differ are read (`audit_drill`). The findings are:

- `BYTES`: other bytes at the same offset: damage, or a log that was not truncated where it should.
- `DAMAGED`: a running replica knows that its bytes are damaged, and returns them to nobody.
- `EPOCHS`: the replicas attribute the same offsets to different masters.
- `SHORT`: a replica ends before the confirmed offset: it lags, or its tail was lost.
- `BEYOND`: bytes after the confirmed offset. Legal, as a failover may still truncate them.
- `ALONE`: only one replica has the bytes, because retention deleted the others'. Legal.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from epochmq.base.errors import PeerError, UsageError
from epochmq.base.limits import REPLICAS_MAX
from epochmq.model.log_blocks import blocks_of

BLOCK_BYTES = 1 << 20
BLOCK_BYTES_MIN, BLOCK_BYTES_MAX = 4 << 10, 64 << 20
UNKNOWN_EPOCH = -1

Names = tuple[str, ...]


DAMAGED = ""
"""Takes the place of the digest of a block that its replica knows as damaged."""


class DigestBlock(NamedTuple):
    """The digest of log bytes `[offset, offset + size)`, or `DAMAGED`."""

    offset: int
    size: int
    digest: str


class Epoch(NamedTuple):
    """An epoch whose master wrote the log from `start` up to the next epoch's start."""

    epoch: int
    start: int


class SharedBytes(NamedTuple):
    """Bytes `[low, high)`, which exactly the replicas in `holders` have."""

    low: int
    high: int
    holders: Names


class Split(NamedTuple):
    """Adjacent blocks `[low, high)` in which the same replicas agree with each other.

    `groups` are the replicas with equal bytes, the largest group first; the given order breaks
    ties.
    """

    low: int
    high: int
    groups: tuple[Names, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """The log bytes `[start, end)` of one replica, and what the replica knows of the group.

    `confirmed` is the offset that it knows as confirmed, 0 for none. `epochs` are in ascending
    order, and may be empty.
    """

    name: str
    start: int
    end: int
    confirmed: int
    epochs: tuple[Epoch, ...] = ()

    def epoch_at(self, offset: int) -> int:
        """Return the epoch that wrote byte `offset`; UNKNOWN_EPOCH below the first entry."""
        for entry in reversed(self.epochs):
            if entry.start <= offset:
                return entry.epoch
        return UNKNOWN_EPOCH


class FindingKind(Enum):
    BYTES = "bytes"
    DAMAGED = "damaged"
    EPOCHS = "epochs"
    SHORT = "short"
    BEYOND = "beyond"
    ALONE = "alone"

    @property
    def is_legal(self) -> bool:
        return self in (FindingKind.BEYOND, FindingKind.ALONE)


class Finding(NamedTuple):
    """A finding about bytes `[low, high)` of `replicas`, with one line of text."""

    kind: FindingKind
    low: int
    high: int
    replicas: Names
    text: str


def check_shapes(shapes: Sequence[Shape]) -> None:
    """Raise `UsageError` for replicas that cannot be compared."""
    if not 2 <= len(shapes) <= REPLICAS_MAX:
        raise UsageError(
            f"{len(shapes)} replicas cannot be compared with each other; give 2 to {REPLICAS_MAX}"
        )
    if len({shape.name for shape in shapes}) != len(shapes):
        raise UsageError("two replicas have the same name; give each its own")
    for shape in shapes:
        starts = [entry.start for entry in shape.epochs]
        if shape.start > shape.end or starts != sorted(starts):
            raise PeerError(f"{shape.name} says of itself what cannot be: {shape}")


def check_block_bytes(size: int) -> None:
    """Raise `UsageError` for a block size in bytes that is not allowed."""
    if not BLOCK_BYTES_MIN <= size <= BLOCK_BYTES_MAX or size & (size - 1):
        raise UsageError(
            f"a block of {size} bytes cannot be used; take a power of two from {BLOCK_BYTES_MIN}"
            f" to {BLOCK_BYTES_MAX}"
        )


def limit_of(shapes: Sequence[Shape], up_to: int | None = None) -> int:
    """Return the offset up to which replicas must agree: the highest confirmed one known to any.

    The confirmed offset never decreases, so each replica knows a lower bound. When no replica knows
    one (without a controller), it is the end of the shortest log. `up_to` can only lower it.
    """
    known = max(shape.confirmed for shape in shapes)
    limit = known if known > 0 else min(shape.end for shape in shapes)
    return limit if up_to is None else min(limit, up_to)


def spans(shapes: Sequence[Shape], limit: int) -> list[SharedBytes]:
    """Cut the log up to `limit` where a replica's bytes begin or end; returns spans in order."""
    points = {min(at, limit) for shape in shapes for at in (shape.start, shape.end)}
    found = []
    for low, high in pairwise(sorted(points)):
        holders = tuple(s.name for s in shapes if s.start <= low and high <= s.end)
        if holders:
            found.append(SharedBytes(low, high, holders))
    return found


def check_blocks(
    name: str, low: int, high: int, size: int, blocks: Sequence[DigestBlock]
) -> Sequence[DigestBlock]:
    """Return the blocks; raises `PeerError` unless they are the first ones of `[low, high)`."""
    expected = blocks_of(low, high, size)
    for block in blocks:
        if next(expected, None) != block[:2]:
            raise PeerError(
                f"{name} answered with a block of {block.size} bytes at {block.offset} that nobody"
                f" asked for ({low} to {high}, {size} a block)"
            )
    return blocks


def splits(span: SharedBytes, digests: Mapping[str, Sequence[DigestBlock]]) -> list[Split]:
    """Return where the digests of the span's holders differ; adjacent equal splits are joined.

    Blocks that are `DAMAGED` are not compared.
    """
    columns = [digests[name] for name in span.holders]
    found: list[Split] = []
    for row in zip(*columns, strict=True):
        if len({block.digest for block in row} - {DAMAGED}) <= 1:
            continue
        groups = _groups(span.holders, [block.digest for block in row])
        low, high = row[0].offset, row[0].offset + row[0].size
        if found and found[-1].high == low and found[-1].groups == groups:
            found[-1] = Split(found[-1].low, high, groups)
        else:
            found.append(Split(low, high, groups))
    return found


def _groups(names: Names, digests: Sequence[str]) -> tuple[Names, ...]:
    by_digest: dict[str, list[str]] = {}
    for name, digest in zip(names, digests, strict=True):
        if digest != DAMAGED:
            by_digest.setdefault(digest, []).append(name)
    return tuple(sorted((tuple(group) for group in by_digest.values()), key=len, reverse=True))


def epoch_findings(shapes: Sequence[Shape], limit: int) -> list[Finding]:
    """Return ranges below `limit` that replicas attribute to different masters.

    A replica that does not know the epoch counts as agreeing.
    """
    points = {min(at, limit) for s in shapes for at in (s.start, s.end)}
    points |= {e.start for s in shapes for e in s.epochs if e.start < limit}
    found: list[tuple[int, int, dict[str, int]]] = []
    for low, high in pairwise(sorted(points)):
        known = {
            s.name: s.epoch_at(low)
            for s in shapes
            if s.start <= low and high <= s.end and s.epoch_at(low) != UNKNOWN_EPOCH
        }
        if len(set(known.values())) < 2:
            continue
        if found and found[-1][1] == low and found[-1][2] == known:
            found[-1] = (found[-1][0], high, known)
        else:
            found.append((low, high, known))
    return [
        Finding(
            FindingKind.EPOCHS,
            low,
            high,
            tuple(known),
            "written by " + ", ".join(f"epoch {e} at {name}" for name, e in known.items()),
        )
        for low, high, known in found
    ]


def end_findings(shapes: Sequence[Shape], limit: int) -> list[Finding]:
    """Return logs that end too early, and the legal bytes after the confirmed offset."""
    found = []
    for shape in shapes:
        if shape.end < limit:
            missing = limit - shape.end
            lost = (
                f"; it knows {shape.confirmed} as confirmed, so bytes are gone that it had"
                if shape.confirmed > shape.end
                else "; it lags, or its tail was lost"
            )
            text = f"ends at {shape.end}, {missing} bytes before the confirmed {limit}{lost}"
            found.append(Finding(FindingKind.SHORT, shape.end, limit, (shape.name,), text))
        elif shape.end > limit:
            text = f"{shape.end - limit} bytes that are not confirmed; they may differ"
            found.append(Finding(FindingKind.BEYOND, limit, shape.end, (shape.name,), text))
    return found


def damaged_findings(name: str, blocks: Iterable[DigestBlock]) -> list[Finding]:
    """Return the bytes that replica `name` knows as damaged; adjacent blocks are joined."""
    found: list[Finding] = []
    for block in sorted(blocks):
        if block.digest != DAMAGED:
            continue
        low, high = block.offset, block.offset + block.size
        if found and found[-1].high == low:
            low = found.pop().low
        text = (
            f"{name} found its bytes damaged and returns them to nobody; it repairs them from"
            " another replica that has sound ones, or epochmq store repair does"
        )
        found.append(Finding(FindingKind.DAMAGED, low, high, (name,), text))
    return found


def alone_findings(found: Sequence[SharedBytes]) -> list[Finding]:
    """Return the bytes that only one replica has."""
    return [
        Finding(
            FindingKind.ALONE, s.low, s.high, s.holders, "held by this replica only; not compared"
        )
        for s in found
        if len(s.holders) == 1
    ]
