"""Combines two damaged copies of a log block into the block that was written.

Two replicas may be damaged in different records of one block. Where the copies differ, one of them
is right, and the block's checksum tells which: a CRC is linear, so each place that is exchanged
changes it by a value that does not depend on the other places.
"""

from epochmq.model.crc import crc32

GAPS = 64, 512, 4096
"""Differences with fewer equal bytes between them are one place; tried in this order. Damage is
often a whole sector, whose bytes agree with the right ones now and then."""
PLACES_MAX = 12
"""With more places a wrong combination could have the checksum by chance: 1 in 500,000 now."""


def merge(mine: bytes, theirs: bytes, crc: int) -> bytes | None:
    """Return the block with checksum `crc` that two copies of equal length make together.

    Returns None if no combination, or more than one, has that checksum.
    """
    if len(mine) != len(theirs):
        return None
    for gap in GAPS:
        places = _differences(mine, theirs, gap)
        if len(places) <= PLACES_MAX and (found := _choose(mine, theirs, places, crc)) is not None:
            return found
    return None


def _differences(mine: bytes, theirs: bytes, gap: int) -> list[tuple[int, int]]:
    """Return the ranges (first byte, end) in which the copies differ."""
    places: list[tuple[int, int]] = []
    for at, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        if one == other:
            continue
        if places and at - places[-1][1] < gap:
            places[-1] = places[-1][0], at + 1
        else:
            places.append((at, at + 1))
    return places


def _choose(mine: bytes, theirs: bytes, places: list[tuple[int, int]], crc: int) -> bytes | None:
    """Return `mine` with their bytes in those `places` that give the checksum."""
    own = crc32(mine)
    changes = [own ^ crc32(mine[:start] + theirs[start:end] + mine[end:]) for start, end in places]
    matches = [chosen for chosen in range(1 << len(places)) if own ^ _sum(changes, chosen) == crc]
    if len(matches) != 1:
        return None
    merged = bytearray(mine)
    for number, (start, end) in enumerate(places):
        if matches[0] >> number & 1:
            merged[start:end] = theirs[start:end]
    return bytes(merged)


def _sum(changes: list[int], chosen: int) -> int:
    total = 0
    for number, change in enumerate(changes):
        if chosen >> number & 1:
            total ^= change
    return total
