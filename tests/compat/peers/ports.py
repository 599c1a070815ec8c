"""Free loopback ports. A broker needs three beside each other: fast (-2), main, HA (+1)."""

from __future__ import annotations

import os
import random
import socket

_chance = random.SystemRandom()  # worker processes must not draw the same numbers from a seed
_LOWEST, _HIGHEST = 20_000, 31_000  # below the kernel's range for outgoing connections
_SHARES = 4
"""Test workers have ports of their own: one that is free is not taken yet."""
_given: set[int] = set()


def _is_free(port: int) -> bool:
    if port in _given:
        return False
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def share(worker: str) -> tuple[int, int]:
    """The ports, from the first to before the second, that are a test worker's ("gw1") own."""
    size = (_HIGHEST - _LOWEST) // _SHARES
    first = _LOWEST + int("0" + worker.removeprefix("gw")) % _SHARES * size
    return first, first + size


def _block(*distances: int) -> int:
    first, end = share(os.environ.get("PYTEST_XDIST_WORKER", ""))
    for _ in range(500):
        port = _chance.randrange(first - min(distances), end - max(distances))
        block = {port + distance for distance in distances}
        if all(_is_free(member) for member in block):
            _given.update(block)
            return port
    raise RuntimeError("no free loopback ports")


def free_port() -> int:
    """One port that nobody listens on now and that this process has not given out before."""
    return _block(0)


def free_broker_port() -> int:
    """A main port whose fast port, HA port and the one between are free as well."""
    return _block(-2, -1, 0, 1)
