"""Where the native code makes messages from records, and where it makes none."""

import pytest
from sim.kernel.disk import SimDisk
from tests.broker.broker_harness import SMALL, WALL
from tests.store.test_remake import HOST, place, put

from epochmq.model.host import pack
from epochmq.model.names import TIMER_TOPIC
from epochmq.native import library
from epochmq.store.native_messages import NativeMessages
from epochmq.store.native_send import LEVELS
from epochmq.store.options import StoreOptions
from epochmq.store.store import Store

TIMED = "UNIQ_KEY\x01K\x02TIMER_OUT_MS\x015\x02REAL_TOPIC\x01T\x02REAL_QID\x010"


def opened(host: bytes) -> Store:
    return Store.open(SimDisk(), StoreOptions(**SMALL), host, WALL)


def made(store: Store) -> tuple[bool, int]:
    """Whether a message follows from a delayed one, and how many timer rows there are."""
    source = put(store, place())
    put(store, TIMED, topic=TIMER_TOPIC)
    return store.remake(LEVELS, [source], WALL) is not None, len(store.waits(0, 9))


@pytest.mark.skipif(library.library() is None, reason=library.which())
def test_a_store_with_an_ipv4_address() -> None:
    assert made(opened(HOST)) == (True, 1)


def test_a_store_with_an_ipv6_address_makes_none() -> None:
    assert made(opened(pack("::1", 10911))) == (False, 0)


def test_without_native_code_none_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(HOST)
    monkeypatch.setattr(library, "library", lambda: None)
    bare = NativeMessages(
        store._files, store.pointers, store._reader, HOST, store._appender.is_plain_topic
    )
    source = put(store, place())
    assert (bare.remake(LEVELS, [source], WALL), bare.waits(0, 9)) == (None, [])
