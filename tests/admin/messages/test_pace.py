"""Holding a stream to a rate."""

import asyncio
import time

import pytest

from epochmq.admin.messages.sender import SendPace


async def test_a_rate_is_held() -> None:
    pace = SendPace(200)
    began = time.monotonic()
    for _ in range(41):
        await pace.next()
    assert time.monotonic() - began > 0.18


async def test_no_rate_is_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    pace = SendPace(0)
    monkeypatch.setattr(asyncio, "sleep", None)
    for _ in range(10_000):
        await pace.next()
