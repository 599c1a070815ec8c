"""Sockets and their options, and one clear error for each way in which listening can fail."""

import errno
import socket

from epochmq.base import limits
from epochmq.base.errors import EnvironmentFault, PortInUse
from epochmq.runtime.port_holder import describe_holder

BACKLOG = 1024
KEEPALIVE_IDLE_S = 60
KEEPALIVE_INTERVAL_S = 15
KEEPALIVE_PROBES = 4


def listen(
    host: str, port: int, backlog: int = BACKLOG, *, origin: str = "listenPort"
) -> socket.socket:
    """A bound, listening, non-blocking socket; port 0 takes any free one.

    `origin` is the option that says which port it is.

    Errors: `PortInUse` naming the holder where it can be found, `EnvironmentFault` otherwise.
    """
    family, address = resolve(host, port)
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tune(listener)  # Linux hands these options down to every accepted socket
        listener.bind(address)
        listener.listen(backlog)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise _explain(error, host, port, origin) from None
    return listener


def tune(sock: socket.socket) -> None:
    """Small answers leave at once, and a peer that vanished without a word is found out.

    Unacknowledged bytes and unanswered probes both end a half-open connection within 2 minutes.
    """
    options = [
        (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", KEEPALIVE_PROBES),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", limits.IDLE_MS),
    ]
    for level, name, value in options:
        if hasattr(socket, name):
            sock.setsockopt(level, getattr(socket, name), value)


def resolve(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """The first address of a host name to listen on; `EnvironmentFault` when there is none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise EnvironmentFault(
            f"cannot listen on {host}:{port}: the host name does not resolve ({error}); "
            "set bindAddress to an address of this machine"
        ) from None
    family, _, _, _, address = found[0]
    return family, (str(address[0]), port)


def _explain(error: OSError, host: str, port: int, origin: str) -> EnvironmentFault:
    where = f"cannot listen on {host}:{port}"
    if error.errno == errno.EADDRINUSE:
        holder = describe_holder(port)
        return PortInUse(
            f"{where}: the port is taken{f' by {holder}' if holder else ''}; "
            f"stop that process or set another {origin}"
        )
    if error.errno == errno.EACCES:
        return EnvironmentFault(f"{where}: not allowed; ports below 1024 need privileges")
    if error.errno == errno.EADDRNOTAVAIL:
        return EnvironmentFault(
            f"{where}: this machine has no such address; set bindAddress to one it has"
        )
    return EnvironmentFault(f"{where}: {error.strerror or error}")
