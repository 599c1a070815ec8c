"""Listening sockets and socket options, with a clear error for each way that listening fails."""

import errno
import os
import socket
from pathlib import Path

from epochmq.base import limits
from epochmq.base.errors import EnvironmentFault, PortInUse

# Port holder ---------------------------------------------------------------------------------
# The process that holds a listening port, read from /proc for the error message.


_LISTEN = "0A"


def describe_holder(port: int, proc: str = "/proc") -> str:
    """Return for example 'process 4711 (java)'.

    Returns '' when the process is not known (no /proc, or a process of another user).
    """
    wanted = _listening_sockets(port, proc)
    if not wanted:
        return ""
    for pid in _pids(proc):
        if _holds(f"{proc}/{pid}/fd", wanted):
            return f"process {pid} ({_name(pid, proc)})"
    return ""


def is_held_by(pid: int, port: int, proc: str = "/proc") -> bool | None:
    """Return whether process `pid` listens on `port`; None where the system does not say."""
    if not os.path.isdir(f"{proc}/{pid}/fd"):
        return None
    return _holds(f"{proc}/{pid}/fd", _listening_sockets(port, proc))


def name_holder(error: PortInUse) -> str:
    """Return the error's text, with the process that uses the port if it is known.

    Reads the descriptors of all processes, which can take a second: not for an event loop.
    """
    holder = describe_holder(error.port) if error.port else ""
    return f"{error}; it is taken by {holder}" if holder else str(error)


def _listening_sockets(port: int, proc: str) -> set[str]:
    """Return the sockets that listen on `port`, as descriptors name them: "socket:[4711]".

    A line of net/tcp is: sl local rem st ... inode.
    """
    found: set[str] = set()
    for table in ("tcp", "tcp6"):
        for line in _lines(f"{proc}/net/{table}")[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTEN:
                if int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(f"socket:[{fields[9]}]")
    return found


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _pids(proc: str) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(proc) if name.isdigit())
    except OSError:
        return []


def _holds(directory: str, wanted: set[str]) -> bool:
    try:
        names = os.listdir(directory)
    except OSError:
        return False
    for name in names:
        try:
            if os.readlink(f"{directory}/{name}") in wanted:
                return True
        except OSError:
            continue  # the descriptor is closed meanwhile
    return False


def _name(pid: int, proc: str) -> str:
    return " ".join(_lines(f"{proc}/{pid}/comm")) or "?"


# Listen --------------------------------------------------------------------------------------


BACKLOG = 1024
KEEPALIVE_IDLE_S = 60
KEEPALIVE_INTERVAL_S = 15
KEEPALIVE_PROBES = 4


def listen(
    host: str, port: int, backlog: int = BACKLOG, *, origin: str = "listenPort"
) -> socket.socket:
    """Return a bound, listening, non-blocking socket; port 0 means any free port.

    `origin` is the option that sets the port, for the error text. Raises `PortInUse`, otherwise
    `EnvironmentFault`. `name_holder` tells which process uses the port.
    """
    family, address = resolve(host, port)
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tune(listener)  # accepted sockets inherit these options (Linux)
        listener.bind(address)
        listener.listen(backlog)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise _explain(error, host, port, origin) from None
    return listener


def tune(sock: socket.socket) -> None:
    """Set socket options: send small answers at once, and detect peers that vanished.

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
    """Return the address family and the first address of a host name to listen on.

    Raises `EnvironmentFault` when the name does not resolve.
    """
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
        text = f"the port is taken; stop the process that uses it or set another {origin}"
        return PortInUse(f"{where}: {text}", port)
    if error.errno == errno.EACCES:
        return EnvironmentFault(f"{where}: not allowed; ports below 1024 need privileges")
    if error.errno == errno.EADDRNOTAVAIL:
        return EnvironmentFault(
            f"{where}: this machine has no such address; set bindAddress to one it has"
        )
    return EnvironmentFault(f"{where}: {error.strerror or error}")
