"""Holds a stream to so many a second."""

import asyncio
import time

_SLICE_S = 0.005


class SendPace:
    """`await pace.next()` before each message; 0 a second means as fast as it goes."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._began = time.monotonic()
        self._count = 0

    async def next(self) -> None:
        """Wait until it is this message's turn; very short sleeps are left out."""
        if not self._per_second:
            return
        due = self._began + self._count / self._per_second
        self._count += 1
        late = time.monotonic() - due
        if late < -_SLICE_S or (late < 0 and self._count < self._per_second * _SLICE_S):
            await asyncio.sleep(-late)
