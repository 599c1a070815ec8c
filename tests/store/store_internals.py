"""What tests of other packages need of the inside of a store."""

from epochmq.store.index_file import IndexFile
from epochmq.store.message_index import Index
from epochmq.store.read import Reader
from epochmq.store.store import Store


def flip_bit(store: Store, at: int, bit: int = 1) -> None:
    """Damage the first file of the log at this offset of the file, behind the store's back."""
    file = store._log.segments[0].file
    file.write(at, bytes([file.read(at, 1)[0] ^ bit]))


def write_without_native(store: Store) -> None:
    """The store makes delayed messages and ends of transactions in Python from now on."""
    store._native_messages.remaker = None


def reader_of(store: Store) -> Reader:
    """What a search by key reads messages with."""
    return store._reader


def index_of(store: Store) -> Index:
    """The index of a store that has one."""
    assert store._files.index is not None
    return store._files.index


def slots_of(file: IndexFile) -> memoryview:
    """The hash slots of a file of the index, to be written to."""
    return file._load()
