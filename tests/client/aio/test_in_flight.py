"""Places for sends: how many, how large, in which order."""

import asyncio

import pytest

from epochmq.base.errors import UsageError
from epochmq.client.aio.in_flight import FIRST, InFlight


async def until_waiting(places: InFlight, count: int) -> None:
    for _ in range(10):
        await asyncio.sleep(0)
    assert places.statistics()["waiting"] == count


async def test_callers_of_a_full_window_wait_in_order() -> None:
    places = InFlight(2, 1_000)
    got: list[int] = []

    async def enter(number: int) -> None:
        await places.enter(1)
        got.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(enter(number))
        await until_waiting(places, 3)
        assert got == [0, 1]
        for _ in range(3):
            places.leave(1)
    assert got == [0, 1, 2, 3, 4]


async def test_bytes_count_and_a_large_one_goes_alone() -> None:
    places = InFlight(10, 100)
    await places.enter(60)
    large, small = asyncio.create_task(places.enter(500)), asyncio.create_task(places.enter(1))
    await until_waiting(places, 2)
    places.leave(60)
    await large
    assert not small.done()
    places.leave(500)
    await small
    assert places.statistics() == {"inFlight": 1, "bytes": 1, "waiting": 0}


@pytest.mark.parametrize("had_place", [False, True])
async def test_a_cancelled_caller_keeps_no_slot_and_blocks_no_other(had_place: bool) -> None:
    places = InFlight(1, 100)
    await places.enter(1)
    first, second = asyncio.create_task(places.enter(1)), asyncio.create_task(places.enter(1))
    await until_waiting(places, 2)
    if had_place:
        places.leave(1)  # it is the first one's, who has not run yet
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    if not had_place:
        places.leave(1)
    await second
    assert places.statistics() == {"inFlight": 1, "bytes": 1, "waiting": 0}


async def test_of_many_places_as_many_are_given_as_are_needed() -> None:
    """40,000 sends at once: those that are under way are answered in time, the rest waits."""
    places = InFlight(FIRST + 100, 1 << 40)
    tasks = [asyncio.create_task(places.enter(1)) for _ in range(FIRST + 500)]
    await until_waiting(places, 500)
    for _ in range(30):
        places.done(1, took_ms=750, timeout_ms=3_000)
    assert places.statistics()["inFlight"] == FIRST + 30
    for _ in range(200):
        places.done(1, took_ms=10, timeout_ms=3_000)
    assert places.statistics()["inFlight"] == FIRST + 100, "no more than were asked for"
    for _ in range(50):
        places.done(1, took_ms=1_400, timeout_ms=3_000)
    assert places.statistics()["inFlight"] == FIRST + 100
    for _ in range(20):
        places.done(1, took_ms=1_600, timeout_ms=3_000)
    assert places.statistics()["inFlight"] == FIRST + 80
    for _ in range(FIRST):
        places.done(1, took_ms=60_000, timeout_ms=3_000)
    assert places._open == FIRST, "never fewer: the bound of who asks for nothing"
    await asyncio.gather(*tasks)


async def test_few_places_stay_as_they_are() -> None:
    places = InFlight(2, 100)
    for took_ms in (0, 60_000):
        for _ in range(5):
            await places.enter(1)
            places.done(1, took_ms, timeout_ms=3_000)
    await places.enter(1)
    await places.enter(1)
    assert not places.enter_at_once(1)


async def test_a_closed_window_refuses_waiting_callers() -> None:
    places = InFlight(1, 100)
    await places.enter(1)
    waiting = asyncio.create_task(places.enter(1))
    await until_waiting(places, 1)
    places.close()
    for late in (waiting, places.enter(1)):
        with pytest.raises(UsageError, match="closed"):
            await late
    places.leave(1)
