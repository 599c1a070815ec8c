"""The native code for the decoder, its layouts compared once with those of Python."""

import ctypes
from functools import lru_cache

from epochmq.spark.decode_made import ColumnsArgs
from epochmq.spark.decode_native import RowsArgs
from epochmq.spark.decode_packed import PairsArgs
from epochmq.spark.decode_whole import WholeArgs
from epochmq.store.native import library as native

MIRRORED = {
    "rows": ctypes.sizeof(RowsArgs),
    "columns": ctypes.sizeof(ColumnsArgs),
    "pairs": ctypes.sizeof(PairsArgs),
    "whole": ctypes.sizeof(WholeArgs),
}
"""Structures of the decoder that C lays out as well."""


@lru_cache(maxsize=1)
def library() -> native.Library | None:
    """The native code, None when numpy does it all; `OurBug` when the layouts differ."""
    found = native.library()
    if found is not None:
        found.check_sizes(MIRRORED)
    return found
