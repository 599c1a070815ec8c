"""Asking until the answer is as wanted, for what a broker does a moment after it answered."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from epochmq.base.errors import Refused

T = TypeVar("T")


async def eventually(ask: Callable[[], Awaitable[T]], wanted: Callable[[T], bool] = bool) -> T:
    """The first answer that is `wanted`; refusals meanwhile count as not yet."""
    last: object = "no answer"
    try:
        async with asyncio.timeout(60):
            while True:
                try:
                    answer = await ask()
                except Refused as error:
                    last = error
                else:
                    if wanted(answer):
                        return answer
                    last = answer
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"not within 60 s; the last answer: {last}")
