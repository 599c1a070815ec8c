"""Runs one coroutine as a whole program: event loop choice, Ctrl-C, exit on a broken invariant."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from epochmq.base.errors import OurBug

T = TypeVar("T")
log = logging.getLogger(__name__)

INTERRUPTED = 130
"""Exit code of a program that Ctrl-C ended, as in shells (128 + SIGINT)."""


def run(main: Coroutine[Any, Any, T], *, uvloop: bool = False) -> T:
    """Run `main` to its end on a new event loop and return its result.

    With `uvloop` the loop is uvloop's, if it is installed. uvloop needs half the CPU of the
    standard loop when each read has one message; the standard loop is the fallback
    (docs/adr/0002-event-loop.md).

    Ctrl-C cancels `main`, which cleans up in its `finally` blocks; then `SystemExit(130)` is
    raised, without a traceback. An `OurBug` in any callback of the loop cancels `main` and is
    raised from here: a process never continues after a broken invariant.
    """
    with asyncio.Runner(loop_factory=_uvloop_factory() if uvloop else None) as runner:
        try:
            return runner.run(_guarded(main))
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None


def _uvloop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        from uvloop import new_event_loop  # not on Windows; slow to import for small commands
    except ImportError:
        return None
    return new_event_loop


async def _guarded(main: Coroutine[Any, Any, T]) -> T:
    loop = asyncio.get_running_loop()
    task = loop.create_task(main)
    bugs: list[OurBug] = []

    def on_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OurBug):
            log.critical("stopping: %(error)s", {"error": error}, exc_info=error)
            bugs.append(error)
            task.cancel()
            return
        loop.default_exception_handler(context)

    loop.set_exception_handler(on_exception)
    try:
        return await task
    except asyncio.CancelledError:
        if bugs:
            raise bugs[0] from None
        raise
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
