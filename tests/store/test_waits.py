"""What the wheel needs of messages: the same as `waiting` of broker/delay/timed.py finds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sim.kernel.disk import SimDisk
from tests.broker.broker_harness import SMALL, WALL
from tests.tiers import examples

from epochmq.broker.delay.timed import waiting
from epochmq.model import record
from epochmq.model.host import pack
from epochmq.model.names import TIMER_TOPIC
from epochmq.native import library
from epochmq.store.draft import Draft
from epochmq.store.options import StoreOptions
from epochmq.store.store import Store

pytestmark = pytest.mark.skipif(library.library() is None, reason=library.which())

HOST = pack("127.0.0.1", 10911)
NUMBERS = (
    "0",
    "5",
    "007",
    "999",
    "1000",
    str(WALL + 1),
    str(WALL + 700),
    "-1",
    "+3",
    "x",
    "9" * 19,
)
TEXTS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(
                ["TIMER_OUT_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"]
            ),
            st.sampled_from(NUMBERS),
        ),
        st.tuples(st.just("TIMER_OUT_MS"), st.just(str(WALL))),
        st.tuples(st.just("REAL_TOPIC"), st.sampled_from(["T", "ü", "U", ""])),
        st.tuples(st.sampled_from(["TIMER_DEL_UNIQKEY", "TIMER_ROLL_TIMES", "a"]), st.just("1")),
    ),
    max_size=5,
)


def opened() -> Store:
    return Store.open(SimDisk(), StoreOptions(**SMALL), HOST, WALL)


@settings(max_examples=examples(100))
@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_the_same_as_in_python(texts: list[list[tuple[str, str]]]) -> None:
    store = opened()
    for pairs in texts:
        text = "\x02".join(f"{name}\x01{value}" for name, value in [("UNIQ_KEY", "K"), *pairs])
        store.append([Draft(TIMER_TOPIC, 0, b"x", text.encode(), born_host=HOST)], WALL)
    found = store.waits(0, 9)
    raws = store.read_queue(TIMER_TOPIC, 0, 0, 9, 1 << 20, None, lambda raw: True).chunks
    assert len(found) <= len(raws)
    for number, (one, raw) in enumerate(zip(found, raws, strict=False)):
        entry = waiting(raw)
        assert entry is not None
        assert (one.due_wall_ms, one.topic, one.topic_hash) == (
            entry.deliver_wall_ms,
            entry.topic,
            entry.topic_hash,
        )
        assert entry.cancels == ""
        assert (one.queue_offset, one.store_wall_ms) == (number, WALL)
        assert (one.offset, one.size) == (record.offset_at(raw, 0), len(raw))
    if len(found) < len(raws):  # the first that is left to Python is not an ordinary one
        entry, text = waiting(raws[len(found)]), bytes(raws[len(found)])
        odd = (b"TIMER_ROLL_TIMES", b"\x01007", b"\x01-1", b"\x01+3", b"\x01x", b"9" * 19)
        assert entry is None or entry.cancels or any(one in text for one in odd)


def test_ordinary_ones_are_taken() -> None:
    store = opened()
    text = f"TIMER_DELAY_SEC\x015\x02TIMER_OUT_MS\x01{WALL + 4000}\x02REAL_TOPIC\x01ü"
    for _ in range(3):
        store.append([Draft(TIMER_TOPIC, 0, b"x", text.encode(), born_host=HOST)], WALL)
    assert [(one.queue_offset, one.due_wall_ms, one.topic) for one in store.waits(1, 9)] == [
        (1, WALL + 5000, "ü"),
        (2, WALL + 5000, "ü"),
    ]
    assert store.waits(3, 9) == store.waits(99, 9) == []
    assert len(store.waits(0, 2)) == 2


def test_other_hosts_and_damage_are_left_to_python() -> None:
    store = opened()
    text = f"TIMER_OUT_MS\x01{WALL}\x02REAL_TOPIC\x01T".encode()
    store.append([Draft(TIMER_TOPIC, 0, b"x", text, born_host=bytes(16) + HOST[4:])], WALL)
    assert store.waits(0, 9) == []
    store = opened()
    store.append([Draft(TIMER_TOPIC, 0, b"damage me", text, born_host=HOST)], WALL)
    assert len(store.waits(0, 9)) == 1
    segment = store._log.find(0)
    assert segment is not None
    segment.write(88, b"D")
    assert store.waits(0, 9) == []
