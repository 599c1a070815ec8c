"""Commands that can print again and again: `-i SECONDS`."""

import asyncio
from collections.abc import Awaitable, Callable

import click

from epochmq.admin.mqadmin.running import opt


def interval() -> click.Option:
    """The option `-i`."""
    return opt("i", "interval", "Print again every so many seconds.", click.IntRange(1))


async def repeat(once: Callable[[], Awaitable[None]], seconds: int | None) -> None:
    """`once`, and without end when there is an interval; Ctrl-C ends it."""
    await once()
    while seconds is not None:
        await asyncio.sleep(seconds)
        await once()
