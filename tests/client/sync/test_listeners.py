"""Plain functions get a thread, coroutine functions stay where they are."""

import asyncio
import threading

from epochmq.client.aio.listening import run_in_thread


async def test_a_plain_function_runs_in_another_thread() -> None:
    assert await run_in_thread(threading.get_ident)() != threading.get_ident()


def test_a_coroutine_function_is_left_alone() -> None:
    async def listener() -> None:
        await asyncio.sleep(0)

    assert run_in_thread(listener) is listener
