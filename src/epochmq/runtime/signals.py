"""Signal handling: stop on SIGINT and SIGTERM as an event to wait for, reload on SIGHUP."""

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakMethod, finalize

from epochmq.base.errors import EpochError
from epochmq.runtime.logging_setup import reopen_files

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignal:
    """An event that is set when a stop is requested; `reason` says by what, for the log."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.reason: str = ""

    @property
    def asked(self) -> bool:
        return self._event.is_set()

    def ask(self, reason: str) -> None:
        """Request a stop; only the first reason is kept."""
        if not self._event.is_set():
            self.reason = reason
            self._event.set()

    async def wait(self) -> str:
        """Wait for the first `ask`; return its reason."""
        await self._event.wait()
        return self.reason


@contextmanager
def stop_on_signals() -> Iterator[StopSignal]:
    """Set the yielded `StopSignal` on Ctrl-C (SIGINT) and SIGTERM while the block runs.

    A second Ctrl-C has the default effect (KeyboardInterrupt), so that a stop that hangs can be
    ended.
    """
    loop = asyncio.get_running_loop()
    stop = StopSignal()
    installed: set[signal.Signals] = set()

    def on_signal(number: signal.Signals) -> None:
        if number is signal.SIGINT:
            loop.remove_signal_handler(number)
            installed.discard(number)
        stop.ask(number.name)

    for number in STOP_SIGNALS:
        try:
            loop.add_signal_handler(number, on_signal, number)
        except (NotImplementedError, RuntimeError, ValueError):
            continue  # not the main thread, or a system without signals: `ask` still works
        installed.add(number)
    try:
        yield stop
    finally:
        for number in installed:
            loop.remove_signal_handler(number)


# Reload --------------------------------------------------------------------------------------
# Files that a running server reads or opens again on SIGHUP: log files, TLS certificates.


log = logging.getLogger(__name__)

_reloads: list[Callable[[], str]] = []


def on_reload(call: Callable[[], str]) -> Callable[[], None]:
    """Call `call` at each reload; it returns a text for the log, or an empty one.

    The returned function removes the registration.
    """
    _reloads.append(call)
    return lambda: _reloads.remove(call)


def on_reload_while_used(method: Callable[[], str]) -> None:
    """Call a method at each reload, as long as its object is used elsewhere."""
    weakly = WeakMethod(method)

    def call() -> str:
        found = weakly()
        return "" if found is None else found()

    owner = getattr(method, "__self__", None)
    finalize(owner, on_reload(call))


def reload() -> None:
    """Open the log files again, then run the registered calls; a failed call changes nothing."""
    reopen_files()
    log.info("SIGHUP: log files are opened again")
    for call in list(_reloads):
        try:
            if text := call():
                log.info("SIGHUP: %(text)s", {"text": text})
        except EpochError as error:
            log.error("SIGHUP: nothing is changed: %(error)s", {"error": error})


@contextmanager
def reload_on_hangup() -> Iterator[None]:
    """Reload on SIGHUP while the block runs; a closed terminal does not end the process."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGHUP, reload)
    except (NotImplementedError, RuntimeError, ValueError, AttributeError):
        yield  # not the main thread, or a system without SIGHUP
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
