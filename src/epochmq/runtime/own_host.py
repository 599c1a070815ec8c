"""Properties of this machine: host name, IP address, free ports, memory, boot id."""

import os
import socket

from epochmq.runtime.listen import resolve

_FAR_AWAY = ("192.0.2.1", 9)  # an address for documentation: connect() of UDP sends no packet


def host_name() -> str:
    """Return the host name of the operating system."""
    return socket.gethostname()


def host_address() -> str:
    """Return the source IPv4 address of outgoing packets; loopback without a route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_FAR_AWAY)
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def free_port(host: str) -> int:
    """Return a port on which no process listens now.

    It is for "any port" when the number must be known before listening. Raises `EnvironmentFault`
    when the host name does not resolve.
    """
    family, address = resolve(host, 0)
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind(address)
        return int(probe.getsockname()[1])


def memory_bytes() -> int:
    """Return the machine's RAM in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def boot_id() -> str:
    """Return an id that changes with every boot; empty when the system has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
