"""The background thread whose event loop runs all synchronous clients of a process."""

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, TypeVar

from epochmq.base.errors import NotReachable, UsageError

R = TypeVar("R")

log = logging.getLogger(__name__)

LISTENERS_MAX = 64
"""Maximum number of listeners, of all clients, that run at the same time; others wait."""

_lock = threading.Lock()
_started: dict[int, asyncio.AbstractEventLoop] = {}
"""Event loop by process id: after a fork the parent's thread does not exist in the child."""


def _forked() -> None:
    """Replace the lock: another thread, which the child does not have, may have held it."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forked)


def run(work: Coroutine[Any, Any, R]) -> R:
    """Run `work` on the loop and wait; return its result or raise its exception.

    An exception of a signal handler (Ctrl-C) cancels the work. Raises `UsageError` when called from
    a callback that runs on the loop itself, which would wait for ever.
    """
    try:
        loop = _loop()
    except UsageError:
        work.close()
        raise
    return _wait(asyncio.run_coroutine_threadsafe(work, loop))


def call(plain: Callable[[], R]) -> R:
    """Call `plain` in the loop's thread and wait for its result."""
    loop, future = _loop(), Future[R]()

    def act() -> None:
        try:
            future.set_result(plain())
        except BaseException as error:
            future.set_exception(error)

    loop.call_soon_threadsafe(act)
    return _wait(future)


def _wait(future: "Future[R]") -> R:
    try:
        return future.result()
    except CancelledError:
        raise NotReachable("the client was closed while the call was under way") from None
    except BaseException:
        future.cancel()
        raise


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run `loop` until it is stopped; a SystemExit of one listener must not stop all clients."""
    while True:
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            log.warning("%(error)r in a client's thread does not end the program", {"error": error})
        else:
            return


def _loop() -> asyncio.AbstractEventLoop:
    with _lock:
        loop = _started.get(os.getpid())
        if loop is None:
            loop = _started[os.getpid()] = asyncio.new_event_loop()
            listeners = ThreadPoolExecutor(LISTENERS_MAX, "epochmq-listener")
            loop.set_default_executor(listeners)
            threading.Thread(
                target=_serve, args=(loop,), name="epochmq-client", daemon=True
            ).start()
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        return loop
    if here is loop:
        raise UsageError(
            "a synchronous client was called on the client's own loop, by a coroutine that was"
            " given as a listener; use epochmq.client.aio there, or a plain function as listener"
        )
    return loop
