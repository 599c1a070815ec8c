"""File descriptors of this process: how many there may be, and which part of them is for clients.

The kernel gives each new descriptor the lowest number that is free. So an accepted socket whose
number is n tells that n others are open, and comparing n with a bound keeps all above it for files,
whatever else the process has open and however many servers share it.
"""

import os
import resource

RESERVE_MAX = 4_096
"""Never more than this is kept for files; else a quarter of the limit."""
NUMBER_MAX = 1 << 30
"""Stands for "no limit"."""


def raise_limit() -> int:
    """Raise this process's soft limit to the hard one; return what holds now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return limit()  # as where the kernel's own bound is below the hard limit
    return limit()


def limit() -> int:
    """How many descriptors this process may have open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return NUMBER_MAX if soft == resource.RLIM_INFINITY else min(soft, NUMBER_MAX)


def reserve_of(number_max: int) -> int:
    """How many of `number_max` descriptors are for files alone."""
    return min(number_max // 4, RESERVE_MAX)


def socket_refusal(number: int, *, for_replicas: bool = False) -> str | None:
    """Why the accepted socket with this number must be closed again; None when it may stay.

    Replicas may use half of the reserve: clients must not keep a group from its replicas.
    """
    number_max = limit()
    reserve = reserve_of(number_max) // 2 if for_replicas else reserve_of(number_max)
    if number < number_max - reserve:
        return None
    return (
        f"{number} of {number_max} file descriptors are in use, and the others are kept for files;"
        " raise the process's limit (ulimit -n, LimitNOFILE) to serve more clients"
    )


def open_count() -> int:
    """How many descriptors are open; -1 where the system does not tell."""
    try:
        count = os.stat("/proc/self/fd").st_size  # Linux from 6.2 on; 0 before
        return count or len(os.listdir("/proc/self/fd"))
    except OSError:
        return -1


def descriptor_figures() -> dict[str, str]:
    """For the runtime information of a server."""
    return {
        "epochmqDescriptors": str(open_count()),
        "epochmqDescriptorsMax": str(limit()),
    }
