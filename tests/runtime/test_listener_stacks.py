"""What a member of a group tells about its running listeners."""

import asyncio
import threading

from tests.client.stored import stored

from epochmq.client.aio.listening import ConsumeResult, call_listener, run_in_thread
from epochmq.runtime.listener_stacks import listener_stacks

MESSAGES = [stored()]


async def deep(gate: asyncio.Event) -> None:
    await gate.wait()


async def test_a_listener_that_waits_shows_where() -> None:
    gate = asyncio.Event()

    async def stuck(messages: object) -> ConsumeResult:
        await deep(gate)
        return ConsumeResult.SUCCESS

    async def idle() -> None:
        await gate.wait()

    tasks = [
        asyncio.create_task(call_listener(stuck, MESSAGES), name="listener 3"),
        asyncio.create_task(idle(), name="listener 4"),
        asyncio.create_task(idle(), name="heartbeats"),
    ]
    await asyncio.sleep(0)
    text = listener_stacks()
    assert text.startswith("task listener 3\n")
    for line in ("in call_listener", "in stuck", "in deep", "await gate.wait()"):
        assert line in text
    assert "listener 4" not in text
    assert "heartbeats" not in text
    gate.set()
    await asyncio.gather(*tasks)
    assert listener_stacks() == "no listener is running"


async def test_a_listener_in_a_thread_shows_where() -> None:
    gate, runs = threading.Event(), threading.Event()

    def blocked() -> None:
        runs.set()
        gate.wait()

    task = asyncio.create_task(run_in_thread(blocked)())
    await asyncio.to_thread(runs.wait)
    text = listener_stacks()
    gate.set()
    await task
    assert "thread asyncio_" in text
    assert "in blocked" in text
