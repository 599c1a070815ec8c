"""What this machine is called and where others reach it."""

import os
import socket

from epochmq.runtime.listen import resolve

_FAR_AWAY = ("192.0.2.1", 9)  # a documentation address: connecting UDP sends nothing


def host_name() -> str:
    """The host's name, as the operating system has it."""
    return socket.gethostname()


def host_address() -> str:
    """The address packets to the outside would come from; loopback when there is no way out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_FAR_AWAY)
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def free_port(host: str) -> int:
    """A port nobody listens on now; for "any port" where the number must be known beforehand.

    `EnvironmentFault` when the host name does not resolve.
    """
    family, address = resolve(host, 0)
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind(address)
        return int(probe.getsockname()[1])


def memory_bytes() -> int:
    """The machine's RAM."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def boot_id() -> str:
    """Names the time since this machine was started; empty where the system does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
