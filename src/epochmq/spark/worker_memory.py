"""Keeps freed memory in Spark's Python workers, for the next request."""

import ctypes
import os
import sys
from functools import cache

KEPT_BYTES = 32 << 20
"""The most that the C library accepts for the size of a block."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""`mallopt`'s parameters, from glibc's malloc.h."""
_ENVIRONMENT = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


@cache
def keep_freed_memory() -> bool:
    """Let glibc keep up to `KEPT_BYTES` of freed memory, in blocks of any size up to that.

    A sink's requests have hundreds of KiB and are copied several times. glibc returns such blocks
    to the system when they are freed, and the system clears each page that it gives out again:
    that was a fifth of a worker's CPU. Later calls do nothing.

    Returns whether it was done: not with another C library, nor if the environment of the process
    has settings of its own.
    """
    if not sys.platform.startswith("linux") or any(name in os.environ for name in _ENVIRONMENT):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    # The first one alone would end glibc's own adjustment, and make things worse.
    return bool(mallopt(_MMAP_THRESHOLD, KEPT_BYTES) and mallopt(_TRIM_THRESHOLD, KEPT_BYTES))
