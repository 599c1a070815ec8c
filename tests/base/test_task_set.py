"""Tasks are held until they end, end with their set, and never fail unheard."""

import asyncio
import gc
from contextvars import ContextVar, copy_context
from typing import Any

import pytest

from epochmq.base.errors import OurBug
from epochmq.base.task_set import TaskSet

_WHERE: ContextVar[str] = ContextVar("where", default="outside")


async def _fail(error: BaseException) -> None:
    raise error


async def _turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_task_is_held_until_it_ends() -> None:
    tasks, gate = TaskSet(), asyncio.Event()
    task = tasks.spawn(gate.wait(), name="gate")
    assert len(tasks) == 1
    assert task.get_name() == "gate"
    del task
    gc.collect()  # the loop itself holds no task that waits
    gate.set()
    await tasks.drain()
    assert len(tasks) == 0


async def test_awaiting_a_task_returns_its_result() -> None:
    tasks = TaskSet()
    assert await tasks.spawn(asyncio.sleep(0, "result")) == "result"


async def test_a_task_runs_in_the_given_context() -> None:
    async def where() -> str:
        return _WHERE.get()

    context = copy_context()
    context.run(_WHERE.set, "inside")
    tasks = TaskSet()
    assert await tasks.spawn(where(), context=context) == "inside"
    assert await tasks.spawn(where()) == "outside"


async def test_cancelling_does_not_wait() -> None:
    tasks = TaskSet()
    started = [tasks.spawn(asyncio.Event().wait()) for _ in range(3)]
    tasks.cancel()
    assert [task.cancelling() for task in started] == [1, 1, 1]
    assert len(tasks) == 3
    await tasks.wait()
    assert all(task.cancelled() for task in started)


async def test_tasks_are_cancelled_in_the_order_of_their_start() -> None:
    ended: list[int] = []

    async def stay(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    tasks = TaskSet()
    for number in range(20):
        tasks.spawn(stay(number))
    await _turns()
    await tasks.close()
    assert ended == list(range(20))


async def test_closing_waits_for_what_a_task_does_at_its_end() -> None:
    tasks, ended = TaskSet(), []

    async def stay() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await _turns()
            ended.append(True)

    tasks.spawn(stay())
    await _turns()
    await tasks.close()
    assert ended == [True]
    assert len(tasks) == 0
    await tasks.close()  # with nothing left


async def test_waiting_cancels_nothing_and_ends_in_time() -> None:
    tasks, gate = TaskSet(), asyncio.Event()
    task = tasks.spawn(gate.wait())
    await tasks.wait(0)
    assert len(tasks) == 1
    assert not task.cancelling()
    gate.set()
    await tasks.wait()
    assert task.result() is True


@pytest.mark.parametrize("drains", [False, True])
async def test_only_draining_waits_for_tasks_that_are_started_meanwhile(drains: bool) -> None:
    tasks, gate = TaskSet(), asyncio.Event()

    async def first() -> None:
        tasks.spawn(gate.wait())

    tasks.spawn(first())
    if not drains:
        await tasks.wait()
        assert len(tasks) == 1
    asyncio.get_running_loop().call_soon(gate.set)
    await tasks.drain()
    assert len(tasks) == 0


async def test_a_failure_reaches_the_callback_and_a_cancellation_does_not() -> None:
    heard: list[tuple[str, BaseException]] = []
    tasks = TaskSet(lambda task, error: heard.append((task.get_name(), error)))
    problem = ValueError("no")
    tasks.spawn(_fail(problem), name="one")
    tasks.spawn(asyncio.Event().wait(), name="two")
    await _turns()
    await tasks.close()
    assert heard == [("one", problem)]


async def test_without_a_callback_a_failure_reaches_the_handler_of_the_loop() -> None:
    loop, heard = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _loop, context: heard.append(context.get("exception")))
    tasks = TaskSet()
    problem = OurBug("broken")
    tasks.spawn(_fail(problem))
    await tasks.drain()
    gc.collect()
    assert heard == [problem]


async def test_a_failure_that_somebody_awaits_is_not_reported_again() -> None:
    loop = asyncio.get_running_loop()
    heard: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _loop, context: heard.append(context))
    tasks = TaskSet()
    with pytest.raises(ValueError, match="no"):
        await tasks.spawn(_fail(ValueError("no")))
    await _turns()
    gc.collect()
    assert heard == []


async def test_waiting_for_a_task_of_another_loop_is_an_error() -> None:
    tasks, other = TaskSet(), asyncio.new_event_loop()

    async def begin() -> None:
        tasks.spawn(asyncio.Event().wait())

    await asyncio.to_thread(other.run_until_complete, begin())
    try:
        with pytest.raises(RuntimeError, match="different loop"):
            await tasks.close()
    finally:
        await asyncio.to_thread(other.run_until_complete, asyncio.sleep(0))
        other.close()
    assert len(tasks) == 0
