"""What the C++ client offers beyond its C interface, by ``extras.cpp``; see ../README.md."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rocketmq.ffi import dll  # the library is loaded before what leans on it

LIBRARY = "ROCKETMQ_EXTRAS"
"""Names the variable of the environment with the path of what ``extras.cpp`` was compiled to."""
STATES = {"commit": 0, "rollback": 1, "unknown": 2}
STATUSES = (
    "SEND_OK",
    "FLUSH_DISK_TIMEOUT",
    "FLUSH_SLAVE_TIMEOUT",
    "SLAVE_NOT_AVAILABLE",
)


class Sent(ctypes.Structure):
    """As in ``extras.cpp``."""

    _fields_ = (
        ("id", ctypes.c_char * 64),
        ("offset_id", ctypes.c_char * 64),
        ("status", ctypes.c_int),
        ("queue", ctypes.c_int),
        ("queue_offset", ctypes.c_longlong),
    )


_TEXT, _HANDLE = ctypes.c_char_p, ctypes.c_void_p
_CHECK = ctypes.CFUNCTYPE(ctypes.c_int, _TEXT, _TEXT, _TEXT)
_ARGUMENTS: dict[str, list[Any]] = {
    "extras_start": [_TEXT, _TEXT, _TEXT, ctypes.c_int, _CHECK, ctypes.POINTER(_HANDLE)],
    "extras_send": [_HANDLE, *[_TEXT] * 4, ctypes.c_int, ctypes.POINTER(Sent)],
    "extras_stop": [_HANDLE],
    "extras_refresh": [_HANDLE, _TEXT],
}


class ExtrasError(Exception):
    """What the library threw."""


def _load() -> ctypes.CDLL | None:
    assert dll is not None
    if LIBRARY not in os.environ:
        return None
    library = ctypes.CDLL(os.environ[LIBRARY])
    for name, types in _ARGUMENTS.items():
        function = getattr(library, name)
        function.argtypes, function.restype = types, _TEXT
    return library


_library = _load()


def _call(name: str, *arguments: object) -> None:
    if _library is None:
        raise ExtrasError(f"needs {LIBRARY}")
    problem = getattr(_library, name)(*arguments)
    if problem is not None:
        raise ExtrasError(problem.decode(errors="replace"))


class TransactionProducer:
    """``check`` is given body, id and count when a broker asks, and says how the transaction is."""

    def __init__(
        self, group: str, namesrv: str, timeout_ms: int, check: Callable[[str, str, str], int]
    ) -> None:
        def asked(*texts: bytes) -> int:
            return check(*(text.decode() for text in texts))

        self._handle = _HANDLE()
        self._asked = _CHECK(asked)
        instance = f"transactions-{time.time_ns()}"
        texts = (text.encode() for text in (group, namesrv, instance))
        _call("extras_start", *texts, timeout_ms, self._asked, ctypes.byref(self._handle))

    @property
    def handle(self) -> int | None:
        """For ``refreshed``."""
        return self._handle.value

    def send(self, topic: str, key: str, number: int, body: str, state: str) -> Sent:
        """A half message whose transaction ends, or stays open, as ``state`` says."""
        sent = Sent()
        texts = (text.encode() for text in (topic, key, str(number), body))
        _call("extras_send", self._handle, *texts, STATES[state], ctypes.byref(sent))
        return sent

    def greet(self, topic: str) -> None:
        """Brokers ask whom they have heard of, and the library's heartbeats are 30 s apart."""
        _call("extras_refresh", self._handle, topic.encode())

    def stop(self) -> None:
        """It answers no more."""
        _call("extras_stop", self._handle)


@contextmanager
def refreshed(handle: int | None, topic: str, each_ms: int) -> Iterator[None]:
    """A client of the C interface asks for its route so often meanwhile; 0: as it does itself."""
    over = threading.Event()

    def keep() -> None:
        while not over.wait(each_ms / 1000):
            with suppress(ExtrasError):  # there may be no route now
                _call("extras_refresh", handle, topic.encode())

    thread = threading.Thread(target=keep, daemon=True)
    if each_ms:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if each_ms:
            thread.join()
