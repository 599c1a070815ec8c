"""Listeners of synchronous clients: plain functions that may wait, and so run in threads."""

import asyncio
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any


def in_thread(listener: Callable[..., Any]) -> Callable[..., Any]:
    """`listener` as the asyncio client wants it; a coroutine function stays on the loop."""
    if iscoroutinefunction(listener):
        return listener
    return lambda *args: asyncio.to_thread(listener, *args)
