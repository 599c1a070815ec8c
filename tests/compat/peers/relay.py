"""TCP relays: to an IPv6 loopback port, for clients that know no such address, and links to cut.

Behind the first a broker sees clients come from `::1`, as through a proxy of a dual-stack network.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

_PIECE = 64 << 10


def has_ipv6() -> bool:
    """Whether this machine has an IPv6 loopback address."""
    with suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


class Relay:
    """Hands connections to 127.0.0.1:`port` on to [::1]:`port`, or to `target`.

    `cut` holds back what comes, both ways, as a network that drops packets; nobody is told.
    """

    def __init__(self, port: int, target: tuple[str, int] | None = None) -> None:
        self._target = target or ("::1", port)
        self._open = threading.Event()
        self._open.set()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        threading.Thread(target=self._accept, daemon=True, name=f"relay-{port}").start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self._target, timeout=5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            threading.Thread(target=_join, args=(near, far, self._open), daemon=True).start()

    def cut(self) -> None:
        """Let nothing through until `heal`."""
        self._open.clear()

    def heal(self) -> None:
        """Let go on what was held."""
        self._open.set()

    def close(self) -> None:
        """Take no more connections; those that are there end with their ends."""
        self.heal()
        # Closing alone does not wake the thread that waits in accept.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _join(near: socket.socket, far: socket.socket, is_open: threading.Event) -> None:
    """Both directions until either side ends."""
    with near, far:
        back = threading.Thread(target=_pass_on, args=(far, near, is_open), daemon=True)
        back.start()
        _pass_on(near, far, is_open)
        back.join()


def _pass_on(source: socket.socket, target: socket.socket, is_open: threading.Event) -> None:
    with suppress(OSError):
        while piece := source.recv(_PIECE):
            is_open.wait()
            target.sendall(piece)
    is_open.wait()
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
