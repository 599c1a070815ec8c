"""One call for all that ask at a time."""

import asyncio

import pytest

from epochmq.base.errors import NotReachable, Refused
from epochmq.runtime.peers import SharedCalls


class Work:
    def __init__(self) -> None:
        self.calls = 0
        self.go_on = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.calls += 1
        await self.go_on.wait()
        if self.error is not None:
            raise self.error
        return self.calls


async def test_all_that_ask_meanwhile_get_the_same_and_later_ones_another() -> None:
    shared, work = SharedCalls[str, int](), Work()
    tasks = [asyncio.create_task(shared.call("a", work)) for _ in range(100)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    work.go_on.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert results[1:] == [1] * 99
    assert await shared.call("a", work) == 2


async def test_each_gets_an_error_of_its_own() -> None:
    shared, work = SharedCalls[str, int](), Work()
    work.error = Refused(17, "no")
    tasks = [asyncio.create_task(shared.call("a", work)) for _ in range(3)]
    await asyncio.sleep(0)
    work.go_on.set()
    errors = await asyncio.gather(*tasks, return_exceptions=True)
    assert [(type(e), str(e), getattr(e, "code", 0)) for e in errors] == [(Refused, "no", 17)] * 3
    assert len(set(map(id, errors))) == 3


async def test_waiters_of_a_cancelled_call_are_told() -> None:
    shared, work = SharedCalls[str, int](), Work()
    task = asyncio.create_task(shared.call("a", work))
    await asyncio.sleep(0)
    shared.cancel()
    with pytest.raises(NotReachable, match="closed"):
        await task


async def test_thousands_that_give_up_cost_no_walk_over_all_others() -> None:
    shared, work = SharedCalls[str, int](), Work()
    tasks = [asyncio.create_task(shared.call("a", work)) for _ in range(20_000)]
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    began = loop.time()
    for task in reversed(tasks):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert loop.time() - began < 15  # quadratic: minutes
    work.go_on.set()
