import asyncio
import threading
from collections.abc import Callable

import pytest

from epochmq.base.errors import OurBug
from epochmq.runtime.blocking import BlockingThread


async def test_a_call_runs_in_another_thread_and_its_result_comes_back() -> None:
    blocking = BlockingThread()
    assert await blocking.run(threading.get_ident) != threading.get_ident()
    blocking.close()


async def test_an_exception_comes_back_and_the_thread_goes_on() -> None:
    blocking = BlockingThread()

    def fail() -> None:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        await blocking.run(fail)
    assert await blocking.run(lambda: 7) == 7
    blocking.close()


async def test_calls_run_one_after_the_other_in_order() -> None:
    blocking = BlockingThread()
    order: list[int] = []

    def call(number: int) -> Callable[[], None]:
        return lambda: order.append(number)

    await asyncio.gather(*(blocking.run(call(number)) for number in range(20)))
    assert order == list(range(20))
    blocking.close()


async def test_a_cancelled_waiter_does_not_stop_the_call() -> None:
    blocking = BlockingThread()
    started, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def call() -> None:
        started.set()
        go_on.wait(5)
        done.set()

    waiter = asyncio.ensure_future(blocking.run(call))
    assert await asyncio.to_thread(started.wait, 30)
    waiter.cancel()
    go_on.set()
    assert await blocking.run(lambda: 1) == 1
    assert done.is_set()
    assert waiter.cancelled()
    blocking.close()


async def test_close_finishes_what_was_given_and_refuses_more() -> None:
    blocking = BlockingThread()
    ran: list[int] = []
    waiting = asyncio.ensure_future(blocking.run(lambda: ran.append(1)))
    await asyncio.sleep(0)
    blocking.close()
    assert ran == [1]
    await waiting
    with pytest.raises(OurBug, match="after close"):
        await blocking.run(lambda: None)


def test_close_without_a_call_starts_no_thread() -> None:
    before = threading.active_count()
    BlockingThread().close()
    assert threading.active_count() == before


def test_a_loop_that_is_gone_is_no_error() -> None:
    blocking = BlockingThread()
    go_on = threading.Event()

    async def leave() -> None:
        waiting = asyncio.ensure_future(blocking.run(go_on.wait))
        await asyncio.sleep(0)
        waiting.cancel()

    asyncio.run(leave())
    go_on.set()
    blocking.close()
