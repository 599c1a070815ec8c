"""Coroutines for plain threads."""

import asyncio
import threading

import pytest

from epochmq.spark.spark_loop_thread import LoopThread


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def forever(begun: threading.Event, ended: threading.Event) -> None:
    begun.set()
    try:
        await asyncio.Event().wait()
    finally:
        ended.set()


def test_results_and_errors_come_back() -> None:
    async def fail() -> None:
        raise ValueError("so it is")

    loop = LoopThread("test")
    try:
        assert loop.run(double(4)) == 8
        assert [future.result() for future in map(loop.submit, map(double, range(9)))] == [
            *range(0, 18, 2)
        ]
        with pytest.raises(ValueError, match="so it is"):
            loop.run(fail())
    finally:
        loop.close()


def test_closing_ends_what_runs() -> None:
    loop = LoopThread("test")
    begun, ended = threading.Event(), threading.Event()
    future = loop.submit(forever(begun, ended))
    assert begun.wait(5)
    loop.close()
    assert ended.is_set()
    assert future.cancelled()
    loop.close()  # twice is once
    assert "test" not in {thread.name for thread in threading.enumerate()}
