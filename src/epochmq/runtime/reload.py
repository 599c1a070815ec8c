"""What a running server reads again when it is asked to (SIGHUP): log files, TLS certificates."""

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from epochmq.base.errors import EpochError
from epochmq.runtime.logging_setup import reopen_files

log = logging.getLogger(__name__)

_reloads: list[Callable[[], str]] = []


def on_reload(call: Callable[[], str]) -> Callable[[], None]:
    """Have `call` made at each reload; it says what it read. The result ends that."""
    _reloads.append(call)
    return lambda: _reloads.remove(call)


def reload() -> None:
    """Open the log files again, then make all calls; what fails stays as it is."""
    reopen_files()
    log.info("SIGHUP: log files are opened again")
    for call in list(_reloads):
        try:
            log.info("SIGHUP: %s", call())
        except EpochError as error:
            log.error("SIGHUP: nothing is changed: %s", error)


@contextmanager
def reload_on_hangup() -> Iterator[None]:
    """SIGHUP reloads while the block runs; a terminal that was closed ends nothing."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGHUP, reload)
    except (NotImplementedError, RuntimeError, ValueError, AttributeError):
        yield  # not the main thread, or a system without it
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
