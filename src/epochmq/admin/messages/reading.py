"""Lines from a file, a pipe or a terminal, without a thread that Ctrl-C could not end."""

import asyncio
import os
from collections.abc import AsyncIterator

CHUNK_BYTES = 1 << 16


async def lines(handle: int) -> AsyncIterator[bytes]:
    """Lines without their ends; the last may lack one. Empty lines are lines."""
    rest = b""
    async for chunk in _chunks(handle):
        whole = (rest + chunk).split(b"\n")
        rest = whole.pop()
        for line in whole:
            yield line.removesuffix(b"\r")
    if rest:
        yield rest


async def _chunks(handle: int) -> AsyncIterator[bytes]:
    while True:
        await _readable(handle)
        chunk = os.read(handle, CHUNK_BYTES)
        if not chunk:
            return
        yield chunk


async def _readable(handle: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(handle, ready.set)
    except PermissionError:
        # A plain file: always ready. Give the others a turn all the same.
        await asyncio.sleep(0)
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(handle)
