"""What Spark's worker processes have loaded, taken out of the garbage collector's sight."""

import gc
from functools import cache


@cache
def freeze_once() -> None:
    """For the first call of a process; to be called once everything is imported.

    Spark's daemon collects garbage after every call of a worker: 23 to 41 ms with pyarrow loaded,
    nothing after this. A micro-batch into a sink in Python makes four such
    calls and more: a task's reader and its writer, the writer's making and its commit.
    """
    gc.collect()
    gc.freeze()
