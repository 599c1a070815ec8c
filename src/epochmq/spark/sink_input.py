"""Detects that the input of a sink ended because a task failed, and not at the partition's end.

When a stage before the sink fails, Spark closes its connection to the Python worker, and Arrow
reads that as the end of the stream. The sink would then send the last group with rows missing, and
the next try would send another group (docs/adr/0040-spark-sink.md).
"""

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from epochmq.base.errors import EnvironmentFault

_OPEN_FILES = "/dev/fd"
_TCP_TABLE = "/proc/net/tcp"
_LISTENING = "0A"


def whole(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield all of `batches`; raises `EnvironmentFault` when they end because Spark hung up.

    Call this before this process opens other connections.
    """
    return _checked(batches, _from_spark())


def _checked(
    batches: Iterator[pa.RecordBatch], watched: list[socket.socket]
) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
        if any(map(is_hung_up, watched)):
            raise EnvironmentFault("Spark ended the task before all of its rows were here")
    finally:
        for each in watched:
            each.close()


def _from_spark() -> list[socket.socket]:
    """Return copies of the open connections that Spark's daemon accepted for this worker.

    They are Unix sockets, or TCP connections to a port that a process listens on. Connections from
    a source to brokers are not included. The list is empty where the system does not show open
    files.
    """
    listened = _listened_ports()
    found = []
    for number in _open_files():
        try:
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            copy = socket.socket(fileno=os.dup(number))
        except OSError:
            continue  # it is closed already, such as the one that listed the files
        if _is_incoming(copy, listened) and not is_hung_up(copy):
            found.append(copy)
        else:
            copy.close()
    return found


def _is_incoming(stream: socket.socket, listened: set[int]) -> bool:
    if stream.type != socket.SOCK_STREAM:
        return False
    if stream.family == socket.AF_UNIX:
        return True
    return stream.family == socket.AF_INET and stream.getsockname()[1] in listened


def _open_files() -> list[int]:
    try:
        return [int(name) for name in os.listdir(_OPEN_FILES)]
    except OSError:
        return []


def _listened_ports() -> set[int]:
    try:
        rows = [line.split() for line in Path(_TCP_TABLE).read_text().splitlines()[1:]]
    except OSError:
        return set()
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == _LISTENING}


def is_hung_up(stream: socket.socket) -> bool:
    """Return whether the peer has closed the connection and all its data was read."""
    try:
        return stream.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except OSError:
        return False  # nothing to read now, or a socket that listens or was never connected
