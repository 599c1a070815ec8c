"""Refuse the machine's clock, random numbers, threads and sockets while a history runs."""

import logging
import os
import random
import secrets
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_DOORS: tuple[tuple[object, str], ...] = (
    *((time, name) for name in ("time", "time_ns", "monotonic", "monotonic_ns", "sleep")),
    *((random, name) for name in ("random", "randrange", "randint", "choice", "shuffle")),
    *((os, name) for name in ("urandom", "fsync", "fdatasync")),
    *((uuid, name) for name in ("uuid1", "uuid4")),
    (secrets, "token_bytes"),
    (threading.Thread, "start"),
    (socket, "create_connection"),
)


class Tripped(AssertionError):
    """Raised when simulated code uses the real clock, random numbers, threads or sockets."""


@contextmanager
def armed() -> Iterator[None]:
    """Inside the `with` block, forbid them in this thread, and disable logging, which reads the
    clock.

    Other threads of the process (such as a server that an earlier test left behind) continue: a
    history runs in one thread and may start no other.
    """
    before = [(owner, name, getattr(owner, name)) for owner, name in _DOORS]
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    watched = threading.get_ident()
    for owner, name, door in before:
        setattr(owner, name, _alarm(name, door, watched))
    try:
        yield
    finally:
        for owner, name, door in before:
            setattr(owner, name, door)
        logging.disable(level)


def _alarm(name: str, door: Callable[..., object], watched: int) -> object:
    def ring(*args: object, **kwargs: object) -> object:
        if threading.get_ident() != watched:
            return door(*args, **kwargs)
        raise Tripped(f"{name} was called inside a simulated history")

    return ring
