"""Work beside the loop: its results come back in order, its failures as None."""

import asyncio
import threading
from functools import partial

import pytest

from epochmq.broker.state.background_worker import BackgroundWorker
from epochmq.runtime.blocking import BlockingThread


async def test_results_come_back_on_the_loop_in_order() -> None:
    background = BackgroundWorker(BlockingThread("test-beside"))
    here = threading.get_ident()
    found: list[tuple[int | None, bool]] = []
    over = asyncio.Event()

    def done(result: int | None) -> None:
        found.append((result, threading.get_ident() == here))
        if len(found) == 3:
            over.set()

    places: list[bool] = []

    def call(number: int) -> int:
        places.append(threading.get_ident() == here)
        return 6 // number

    for number in (3, 0, 1):
        background.run(lambda number=number: call(number), done)  # type: ignore[misc]
    await asyncio.wait_for(over.wait(), 5)
    assert found == [(2, True), (None, True), (6, True)]
    assert not any(places)
    await background.close()


async def test_nothing_is_heard_after_the_close(caplog: pytest.LogCaptureFixture) -> None:
    background = BackgroundWorker(BlockingThread("test-beside"))
    found: list[object] = []
    started = threading.Event()
    go_on = threading.Event()

    def call() -> None:
        started.set()
        go_on.wait(5)

    background.run(call, found.append)
    await asyncio.to_thread(started.wait, 5)
    asyncio.get_running_loop().call_later(0.01, go_on.set)
    await background.close()
    background.run(call, found.append)
    assert not found


async def test_a_close_does_not_wait_for_calls_that_have_not_begun() -> None:
    background = BackgroundWorker(BlockingThread("test-waiting"))
    started, go_on = threading.Event(), threading.Event()
    ran: list[int] = []

    def first() -> None:
        started.set()
        go_on.wait(30)
        ran.append(1)

    background.run(first, lambda _: None)
    for number in (2, 3):
        background.run(partial(ran.append, number), lambda _: None)
    await asyncio.to_thread(started.wait, 30)
    closing = asyncio.create_task(background.close())
    await asyncio.sleep(0)
    go_on.set()
    await closing
    assert ran == [1]
