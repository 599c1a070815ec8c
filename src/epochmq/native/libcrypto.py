"""Addresses of hash functions in OpenSSL's libcrypto, for the native code; they use the CPU's own
instructions for SHA-1 and SHA-256.
"""

import ctypes
from functools import lru_cache

_NAMES = ("libcrypto.so.3", "libcrypto.so.1.1")
HASH_FUNCTIONS = (
    "SHA1_Init", "SHA1_Update", "SHA1_Final", "SHA256_Init", "SHA256_Update", "SHA256_Final",
)  # fmt: skip


@lru_cache(maxsize=1)
def hash_functions() -> tuple[int, ...] | None:
    """Return the addresses of `HASH_FUNCTIONS`; None if the system has no libcrypto."""
    for name in _NAMES:
        try:
            library = ctypes.CDLL(name)
            found = [ctypes.cast(getattr(library, f), ctypes.c_void_p) for f in HASH_FUNCTIONS]
        except (OSError, AttributeError):
            continue
        return tuple(address.value or 0 for address in found)
    return None
