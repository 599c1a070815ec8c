"""Records without their bodies: a reader of keys or offsets need not be sent the rest."""

from collections.abc import Iterable

from epochmq.base.limits import BULK_READ_BYTES_MAX
from epochmq.base.types import Buffer
from epochmq.store.native.library import Library
from epochmq.store.native.memory import NativeMemory


class Bare:
    """Takes the bodies out of whole records, by way of memory that is used again each time."""

    def __init__(self, library: Library) -> None:
        self._call = library.bare
        self._memory = NativeMemory(BULK_READ_BYTES_MAX)

    def of(self, chunks: Iterable[Buffer]) -> bytes:
        """All chunks' records, the same but for their own size and that of their body, which is 0.

        Batches kept as one record stay as they are, and so does all behind what is no record, and
        what is larger than a bulk read.
        """
        data = b"".join(chunks)
        if len(data) > len(self._memory.view):
            return data
        size = self._call(data, len(data), self._memory.address)
        return bytes(self._memory.view[:size])
