"""Which seeds a landing plays: a fixed part, the seeds that failed once, and new ground."""

import hashlib

from sim.report import commit

FIXED = 500

FAILED_ONCE: dict[str, tuple[int, ...]] = {
    "store": (12, 126),
    "controller": (),
    "group": (10365062939520942, 874036970271011),
    "raft": (),
    "secondary": (
        3,
        6,
        21,
        50,
        70,
        71,
        111,
        117,
        152,
        178,
        63017,
        700020,
        700022,
        700050,
        700138,
        700187,
        700238,
        700389,
        710029,
        810115,
        810212,
        810356,
        810361,
        810407,
        810451,
        900571,
        920080,
        940044,
        940076,
    ),
    "popping": (1, 50, 266, 2049, 2257, 3034, 3096, 3336, 5019, 5141),
    "locks": (19, 50, 58, 62),
    "acting": (114, 535, 6056, 6485),
    "hard": (
        81,
        10212,
        10241,
        10277,
        10284,
        10335,
        20110,
        50135,
        51167,
        60040,
        60129,
        70093,
        80185,
    ),
}
"""A seed that ever failed is played for ever."""


def landing_seeds(world: str, count: int, at_commit: str | None = None) -> list[int]:
    """`count` seeds: known ones first, then numbers that the commit's hash decides."""
    fixed = min(count, FIXED)
    seeds = list(dict.fromkeys([*FAILED_ONCE.get(world, ()), *range(fixed)]))
    name = at_commit if at_commit is not None else commit()
    digest = hashlib.sha256(f"{name}:{world}".encode()).digest()
    base = int.from_bytes(digest[:5], "big") * 10_000 + FIXED
    seeds += range(base, base + max(0, count - len(seeds)))
    return seeds[:count] if len(seeds) > count else seeds


def chunks(seeds: list[int], size: int) -> list[list[int]]:
    """The seeds in runs of `size`, one test each."""
    return [seeds[at : at + size] for at in range(0, len(seeds), size)]
