"""Listeners of synchronous clients: plain functions that may wait, and so run in threads."""

import asyncio
from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any

from epochmq.base.errors import UsageError


def in_thread(listener: Callable[..., Any]) -> Callable[..., Any]:
    """`listener` as the asyncio client wants it; a coroutine function stays on the loop."""
    if iscoroutinefunction(listener):
        return listener
    function = _without_stop_iteration(listener)
    return lambda *args: asyncio.to_thread(function, *args)


def _without_stop_iteration(listener: Callable[..., Any]) -> Callable[..., Any]:
    """A future cannot carry StopIteration: whoever waits for it would wait for ever."""

    @wraps(listener, updated=())
    def call(*args: Any) -> Any:
        try:
            return listener(*args)
        except StopIteration as error:
            raise UsageError(f"the listener raised {error!r}") from error

    return call
