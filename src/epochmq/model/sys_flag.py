"""Bits of a message's `sys_flag`, in requests and in the log."""

COMPRESSED = 0x1
MULTI_TAGS = 0x2

TX_MASK = 0xC
TX_NONE = 0x0
TX_PREPARED = 0x4
TX_COMMIT = 0x8
TX_ROLLBACK = 0xC

BORN_V6 = 0x10
STORE_V6 = 0x20
HOSTS_V6_MASK = BORN_V6 | STORE_V6

NEED_UNWRAP = 0x40
INNER_BATCH = 0x80

COMPRESSION_MASK = 0x700
COMPRESSION_LEGACY = 0x000
"""Written by clients that know only zlib."""
COMPRESSION_LZ4 = 0x100
COMPRESSION_ZSTD = 0x200
COMPRESSION_ZLIB = 0x300


def transaction_type(sys_flag: int) -> int:
    """Return TX_NONE, TX_PREPARED, TX_COMMIT or TX_ROLLBACK."""
    return sys_flag & TX_MASK


def with_transaction_type(sys_flag: int, kind: int) -> int:
    """Return `sys_flag` with its transaction bits replaced by `kind`."""
    return sys_flag & ~TX_MASK | kind
