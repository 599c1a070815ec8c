"""Reads for metrics when messages were stored; the event loop does not wait for the device."""

from collections.abc import Callable, Generator, Sequence

from epochmq.store.log_memory import NotInMemory
from epochmq.store.store import Store

ColdRead = Callable[[], None]
"""A call that reads messages from the device. It is executed in another thread."""


def store_times(
    store: Store, topic: str, queue_id: int, offsets: Sequence[int]
) -> Generator[ColdRead, None, list[int]]:
    """Return when the messages at queue `offsets` were stored (wall ms); 0 where there is none.

    Yields a call that must be executed before the generator continues, if messages are not in
    memory.
    """

    def read() -> list[int]:
        return [max(0, store.store_time(topic, queue_id, offset)) for offset in offsets]

    try:
        with store.reading_memory_only():
            return read()
    except NotInMemory as missing:
        yield missing.prefetch
    return read()
