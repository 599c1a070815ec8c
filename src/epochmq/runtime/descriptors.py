"""File descriptor limits of this process, and the part that is reserved for files.

The kernel gives each new descriptor the lowest free number. An accepted socket with number n shows
that n other descriptors are open. Comparing n with a limit therefore reserves the numbers above it
for files, whatever else the process has open and however many servers share it.
"""

import os
import resource

RESERVE_MAX = 4_096
"""Maximum number of descriptors reserved for files; otherwise a quarter of the limit."""
NUMBER_MAX = 1 << 30
"""The number that represents "no limit"."""


def raise_limit() -> int:
    """Raise the soft limit of this process to its hard limit; return the limit in effect."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return limit()  # for example when the kernel's own limit is below the hard limit
    return limit()


def limit() -> int:
    """Return how many descriptors this process may open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return NUMBER_MAX if soft == resource.RLIM_INFINITY else min(soft, NUMBER_MAX)


def reserve_of(number_max: int) -> int:
    """Return how many of `number_max` descriptors are reserved for files."""
    return min(number_max // 4, RESERVE_MAX)


def socket_refusal(number: int, *, for_replicas: bool = False) -> str | None:
    """Return why the accepted socket `number` must be closed; None when it may stay open.

    Replicas may use half of the reserve, so that clients cannot block replication.
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
    """Return how many descriptors are open; -1 when the system does not say."""
    try:
        count = os.stat("/proc/self/fd").st_size  # Linux from 6.2 on; 0 before
        return count or len(os.listdir("/proc/self/fd"))
    except OSError:
        return -1


def descriptor_figures() -> dict[str, str]:
    """Return the descriptor figures for a server's runtime information."""
    return {
        "epochmqDescriptors": str(open_count()),
        "epochmqDescriptorsMax": str(limit()),
    }
