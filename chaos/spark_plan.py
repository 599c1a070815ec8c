"""Which runs of the archive a campaign needs, so that all its victims die in few of them.

Starting a session takes longest, so one with executors of its own sees several blows before its
driver dies, and many drivers die without any session: what they commit is the same.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

DRIVER, EXECUTOR, WORKER, MASTER = "driver", "executor", "worker", "master"
"""A worker is a Python process that runs tasks, for an executor or in local mode."""
SESSION = "session"
"""Not a victim: of the drivers these have a session of Spark."""
NO_SPARK, LOCAL, CLUSTER = "none", "local[2]", "local-cluster[2,1,1024]"
KEPT = "local[2] kept"
"""`LOCAL` in a JVM that outlives its drivers (`spark_jvm`); none of them dies while it starts."""
OWN_EVERY = 3
"""Of the drivers with `LOCAL` every so many has a JVM of its own, which dies with it."""
START_UP, BATCH, COMMIT, ANY = "start-up", "batch", "commit", "any"
POINTS = (BATCH, COMMIT, ANY)
EXECUTORS_A_RUN = 20


@dataclass(frozen=True)
class Run:
    """One life of a driver."""

    mode: str
    """Spark's master, `KEPT` or `NO_SPARK`."""
    point: str | None
    """Where the driver is to die; None: it is asked to end, and must end well."""
    blows: tuple[str, ...] = ()
    """Who dies before."""


def plan(missing: Counter[str], chance: random.Random) -> list[Run]:
    """Runs for what is still to be killed, in random order but for those with executors."""
    clusters = -(-missing[EXECUTOR] // EXECUTORS_A_RUN)
    local = max(missing[SESSION] - clusters, 0)
    # Every third session is killed while it starts, and so sees nothing else.
    starting = local // 3
    alone = max(missing[DRIVER] - clusters - local, 0)
    busy = [CLUSTER] * clusters + owned(local - starting)
    others = [MASTER] * missing[MASTER] + [WORKER] * missing[WORKER]
    if others and not busy:
        busy, alone = [LOCAL if missing[WORKER] else NO_SPARK], max(alone - 1, 0)
    dealt = deal(others, len(busy))
    executors = deal([EXECUTOR] * missing[EXECUTOR], clusters)
    points = without_end(POINTS, chance)
    runs = []
    for number, mode in enumerate(busy):
        blows = dealt[number] + (executors[number] if mode == CLUSTER else [])
        chance.shuffle(blows)
        runs.append(Run(mode, next(points), tuple(blows)))
    runs += [Run(LOCAL, START_UP)] * starting
    points = without_end((START_UP, *POINTS), chance)
    runs += [Run(NO_SPARK, next(points)) for _ in range(alone)]
    spared = max(len(runs) - missing[DRIVER], 0)
    runs = [Run(run.mode, None, run.blows) for run in runs[:spared]] + runs[spared:]
    chance.shuffle(runs)
    # First what takes longest: a campaign may be cut short.
    return sorted(runs, key=lambda run: run.mode != CLUSTER)


def owned(count: int) -> list[str]:
    """So many local masters, of either kind."""
    return [KEPT if number % OWN_EVERY else LOCAL for number in range(count)]


def deal(things: Sequence[str], driver: int) -> list[list[str]]:
    """Dealt out in turns."""
    return [list(things[number::driver]) for number in range(driver)]


def without_end(points: Sequence[str], chance: random.Random) -> Iterator[str]:
    """In turns, begun anywhere."""
    first = chance.randrange(len(points))
    return cycle((*points[first:], *points[:first]))
