"""Excludes loaded modules from garbage collection in Spark's Python workers."""

import gc
from functools import cache


@cache
def freeze_once() -> None:
    """Freeze all objects of this process (`gc.freeze`); later calls do nothing.

    Call it after all imports. Spark's daemon collects garbage after every call of a worker, which
    takes 23 to 41 ms with pyarrow loaded, and nothing after this call. A micro-batch into a sink in
    Python makes at least four such calls: a task's reader and writer, and the creation and the
    commit of the writer.
    """
    gc.collect()
    gc.freeze()
