"""Calls from any thread end up on one loop, and come back with what happened there."""

import asyncio
import threading

import pytest

from epochmq.base.errors import NotReachable, UsageError
from epochmq.runtime import loop_thread


async def where() -> str:
    return threading.current_thread().name


async def fails() -> None:
    raise ValueError("no")


async def calls_itself() -> None:
    loop_thread.run(where())


def test_all_threads_share_one_loop() -> None:
    names = []
    threads = [
        threading.Thread(target=lambda: names.append(loop_thread.run(where()))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names == ["epochmq-client"] * 3


def test_what_is_raised_there_is_raised_here() -> None:
    with pytest.raises(ValueError, match="no"):
        loop_thread.run(fails())
    with pytest.raises(ZeroDivisionError):
        loop_thread.call(lambda: 1 // 0)


def test_a_call_on_the_loop_itself_is_refused() -> None:
    with pytest.raises(UsageError, match="plain function as listener"):
        loop_thread.run(calls_itself())


def test_what_is_cancelled_is_said() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(NotReachable, match="closed while"):
        loop_thread.run(cancelled())
