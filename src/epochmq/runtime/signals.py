"""Stop signals as an event that a service can wait for."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignal:
    """Set once a stop is asked for; `reason` says by whom, for the log line."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.reason = ""

    @property
    def asked(self) -> bool:
        return self._event.is_set()

    def ask(self, reason: str) -> None:
        if not self._event.is_set():
            self.reason = reason
            self._event.set()

    async def wait(self) -> str:
        """Wait for the first `ask`; returns its reason."""
        await self._event.wait()
        return self.reason


@contextmanager
def stop_on_signals() -> Iterator[StopSignal]:
    """Ctrl-C and SIGTERM set the yielded `StopSignal` while the block runs.

    A second Ctrl-C takes the default way (KeyboardInterrupt), so that a hanging stop can be broken.
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
