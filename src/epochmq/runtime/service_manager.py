"""Tells systemd that a server is ready, that its event loop runs, and that it stops.

The protocol is that of sd_notify(3): datagrams to the socket that NOTIFY_SOCKET names. Without this
variable nothing is sent.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Mapping

from epochmq.runtime.signals import StopSignal

log = logging.getLogger(__name__)

SOCKET_VARIABLE = "NOTIFY_SOCKET"
WATCHDOG_VARIABLE = "WATCHDOG_USEC"
WATCHDOG_PID_VARIABLE = "WATCHDOG_PID"
_STATUS_LENGTH_MAX = 500


class ServiceManager:
    """The service manager that started this process, if any.

    Args:
        env: the environment of the process.
        pid: the process; a watchdog interval for another process does not count.
    """

    def __init__(self, env: Mapping[str, str], pid: int) -> None:
        self._address = env.get(SOCKET_VARIABLE, "")
        self._failed = False
        self.watchdog_s: float | None = None
        """Interval in which systemd expects a message; None if it expects none."""
        usec = env.get(WATCHDOG_VARIABLE, "")
        if self._address and usec.isdecimal() and int(usec):
            if env.get(WATCHDOG_PID_VARIABLE, str(pid)) == str(pid):
                self.watchdog_s = int(usec) / 1e6

    def tell(self, *lines: str) -> None:
        """Send `lines`; an error is logged once, and changes nothing else."""
        if not self._address:
            return
        address = self._address
        if address.startswith("@"):
            address = "\0" + address[1:]  # an abstract socket
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
                to.setblocking(False)
                to.connect(address)
                to.send("\n".join(lines).encode())
        except OSError as error:
            if not self._failed:
                log.warning(
                    "cannot tell systemd at %(address)s: %(error)s",
                    {"address": self._address, "error": error},
                )
            self._failed = True

    async def ping(self) -> None:
        """Tell forever that the event loop runs, twice in each interval of the watchdog."""
        while self.watchdog_s is not None:
            self.tell("WATCHDOG=1")
            await asyncio.sleep(self.watchdog_s / 2)


async def serve_until(stop: StopSignal, ready: str) -> str:
    """Print that the server is ready, and wait for `stop`; systemd is told of both.

    Args:
        stop: the stop that is waited for.
        ready: one line, such as "broker a ready on 127.0.0.1:10911".

    Returns:
        The reason of the stop, for the log.
    """
    manager = ServiceManager(os.environ, os.getpid())
    print(ready, flush=True)
    manager.tell("READY=1", f"STATUS={ready[:_STATUS_LENGTH_MAX]}")
    pings = asyncio.create_task(manager.ping(), name="watchdog of systemd")
    try:
        return await stop.wait()
    finally:
        pings.cancel()
        manager.tell("STOPPING=1")


def environment_of_child(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a process of which systemd shall not be told."""
    own = (SOCKET_VARIABLE, WATCHDOG_VARIABLE, WATCHDOG_PID_VARIABLE)
    return {name: value for name, value in env.items() if name not in own}
