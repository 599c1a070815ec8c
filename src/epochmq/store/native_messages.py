"""Rebuilds messages and reads timer messages from stored records, by the native code."""

from collections.abc import Callable, Sequence
from functools import cached_property

from epochmq.model.host import V4_SIZE
from epochmq.model.names import TIMER_TOPIC
from epochmq.native import library
from epochmq.store.native_send import StagedEnds
from epochmq.store.pointers import Pointers
from epochmq.store.read import Reader
from epochmq.store.remake import Remade, Remaker, Source
from epochmq.store.store_files import StoreFiles
from epochmq.store.waits import TimedMessage, WaitsReader


class NativeMessages:
    """Calls the native code for one store.

    Without native code, and for a store with an IPv6 address, there are no results.
    """

    def __init__(
        self,
        files: StoreFiles,
        pointers: Pointers,
        reader: Reader,
        store_host: bytes,
        is_plain_topic: Callable[[str], bool],
    ) -> None:
        native = library.library()
        self._native = native if len(store_host) == V4_SIZE else None
        self._files = files
        self._pointers = pointers
        self._reader = reader
        self._store_host = store_host
        self._is_plain_topic = is_plain_topic
        self._waits = None if self._native is None else WaitsReader(self._native, files.log)

    @cached_property
    def remaker(self) -> Remaker | None:
        """The object that rebuilds messages, created at its first use because that is slow."""
        if self._native is None:
            return None
        files = self._files
        return Remaker(
            self._native, files.options, self._store_host, files.log, self._is_plain_topic
        )

    def remake(
        self, kind: int, sources: Sequence[Source], wall: int, ends: StagedEnds | None = None
    ) -> Remade | None:
        """Rebuild messages from the leading records of `sources`; see `store/remake.py`.

        Returns None if the native code rebuilds none of them.
        """
        if self.remaker is None:
            return None
        return self.remaker.make(kind, sources, self._pointers.readable, wall, ends) or None

    def waits(self, offset: int, count: int) -> list[TimedMessage]:
        """Return what the timer wheel needs of up to `count` messages of the timer topic.

        They begin at queue offset `offset`; it stops at a message that is not ordinary. Empty
        without the native code.
        """
        if self._waits is None:
            return []
        units = self._reader.units(TIMER_TOPIC, 0, offset, count)
        return self._waits.read(units, self._pointers.readable) if units else []
