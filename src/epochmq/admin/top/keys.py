"""Reads single key presses from the terminal, without Enter."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class KeyPresses:
    """The keys that were pressed; each is returned once."""

    def __init__(self) -> None:
        self._keys: asyncio.Queue[str] = asyncio.Queue()

    def press(self, text: str) -> None:
        """Note keys."""
        for key in text:
            self._keys.put_nowait(key)

    async def wait(self, seconds: float) -> str:
        """Return the next key; an empty text if none is pressed in time."""
        try:
            async with asyncio.timeout(seconds):
                return await self._keys.get()
        except TimeoutError:
            return ""


@contextmanager
def key_presses() -> Iterator[KeyPresses]:
    """Read keys while the block runs, then restore the terminal.

    Where standard input is not a terminal, no key is ever pressed.
    """
    import termios
    import tty

    presses, loop = KeyPresses(), asyncio.get_running_loop()
    if not sys.stdin.isatty():
        yield presses
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)  # Ctrl-C still interrupts
    loop.add_reader(
        terminal, lambda: presses.press(os.read(terminal, 64).decode("utf-8", "ignore"))
    )
    try:
        yield presses
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
