"""How the cores of replication see a store: where its log begins and ends, and what is safe."""

from epochmq.store.store import Store


class StoreView:
    """`ports.LogView` on a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pointers = store.pointers
        self._sync_flush = store.options.sync_flush
        self.file_bytes = store.options.commit_log_file_bytes

    @property
    def start(self) -> int:
        return self._pointers.start

    @property
    def end(self) -> int:
        return self._store.transferable

    @property
    def whole(self) -> int:
        return self._store.whole_end

    @property
    def safe(self) -> int:
        return self._pointers.synced if self._sync_flush else self._store.transferable

    @property
    def confirmed(self) -> int:
        return self._pointers.confirmed
