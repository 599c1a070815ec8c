"""A master's log made by a real store, and followers that take its bytes."""

from dataclasses import replace
from random import Random

from sim.kernel.disk import SimDisk
from tests.store.world import HOST, SMALL, TOPICS, draft, has_batch_queues

from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.store.draft import Appended
from epochmq.store.options import StoreOptions
from epochmq.store.store import Store

REPLICATED = replace(SMALL, replicated=True)
WALL = 1_700_000_000_000


def opened(
    disk: SimDisk | None = None,
    options: StoreOptions = REPLICATED,
    wall: int = WALL,
    safeguards: Safeguards = SAFE,
) -> Store:
    return Store.open(disk or SimDisk(), options, HOST, wall, has_batch_queues, safeguards)


def fill(
    store: Store,
    count: int,
    seed: int = 1,
    wall: int = WALL,
    topics: tuple[str, ...] = TOPICS,
    step_ms: int = 1,
) -> list[Appended]:
    """Append `count` messages one by one, `step_ms` apart; their places."""
    rng = Random(f"{seed}:fill")
    placed: list[Appended] = []
    for number in range(count):
        (result,) = store.append(
            [draft(seed * 1000 + number, rng, None, topics)], wall + number * step_ms
        )
        assert isinstance(result, Appended), result
        placed.append(result)
    return placed


def ship(master: Store, follower: Store, upto: int | None = None, chunk: int = 777) -> None:
    """Send what the follower lacks, in chunks that know nothing of records."""
    upto = master.transferable if upto is None else upto
    while (at := follower.pointers.appended) < upto:
        data = master.slice(at, min(chunk, upto - at))
        follower.append_raw(at, bytes(data))


def log_bytes(store: Store, upto: int | None = None) -> bytes:
    """The log from its start up to `upto`, else to its end."""
    upto = store.pointers.appended if upto is None else upto
    parts: list[bytes] = []
    at = store.pointers.start
    while at < upto:
        part = bytes(store.slice(at, upto - at))
        assert part
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def shown(store: Store) -> dict[tuple[str, int], tuple[int, int]]:
    """Visible bounds of all queues that show anything."""
    found = {(t, q): store.queue_bounds(t, q) for t in store.topics() for q in store.queues(t)}
    return {name: bounds for name, bounds in found.items() if bounds[0] < bounds[1]}
