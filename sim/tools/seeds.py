"""Seeds that the tests play: those that failed once first, then a run of numbers.

The first number is always the same in `make test`, so that its result does not depend on luck;
`make soak` and `python -m sim campaign` play numbers that nobody played before.
"""

FAILED_ONCE: dict[str, tuple[int, ...]] = {
    "store": (12, 126, 20261127062, 2026112518163),
    "controller": (4708793302600548,),
    "group": (10365062939520942, 874036970271011),
    "raft": (20261124824, 20261126230, 20261135075, 2026112517434),
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
        20261124950,
        20261133347,
    ),
    "popping": (1, 50, 266, 2049, 2257, 3034, 3096, 3336, 5019, 5141, 2026112510289),
    "locks": (19, 50, 58, 62),
    "acting": (114, 535, 6056, 6485, 7700041, 2026112510014, 2026112511358),
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
        70158,
        80185,
        90192,
        700173,
        700552,
        800482,
        800665,
        800769,
        20261123002,
        20261124526,
        20261124581,
        20261125432,
        20261125645,
        20261125706,
        20261131227,
        20261131240,
        20261150008,
        20261150047,
        20261150120,
        20261150367,
        20261153635,
    ),
}
"""A seed that failed once is always tested."""


def history_seeds(world: str, count: int, first: int = 0) -> list[int]:
    """Return the seeds that failed once and then `count` seeds from `first` on, each seed once."""
    return list(dict.fromkeys([*FAILED_ONCE.get(world, ()), *range(first, first + count)]))


def chunks(seeds: list[int], size: int) -> list[list[int]]:
    """Split the seeds into runs of `size`, one test each."""
    return [seeds[at : at + size] for at in range(0, len(seeds), size)]
