"""Messages created again from their records: which ones, their drafts, topics that come and go."""

import pytest
from sim.kernel.disk import SimDisk
from tests.broker.broker_harness import SMALL, WALL

from epochmq.model import record
from epochmq.model.host import pack
from epochmq.model.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from epochmq.native import library
from epochmq.store.draft import Appended, Draft
from epochmq.store.native_send import LEVELS, TIMED
from epochmq.store.options import StoreOptions
from epochmq.store.remake import QUEUES_LEAST, QUEUES_MAX
from epochmq.store.store import Store

pytestmark = pytest.mark.skipif(library.library() is None, reason=library.which())

HOST = pack("127.0.0.1", 10911)
PLACE = "UNIQ_KEY\x01K\x02DELAY\x011\x02REAL_TOPIC\x01{}\x02REAL_QID\x01{}"


@pytest.fixture
def store() -> Store:
    return Store.open(SimDisk(), StoreOptions(**SMALL), HOST, WALL)


def put(
    store: Store, text: str, *, topic: str = SCHEDULE_TOPIC, body: bytes = b"b", host: bytes = HOST
) -> tuple[int, int, int]:
    """A record that waits, as a source."""
    draft = Draft(topic, 0, body, text.encode(), born_host=host, flag=3, reconsume_times=2)
    (placed,) = store.append([draft], WALL)
    assert isinstance(placed, Appended)
    return placed.offset, placed.size, WALL


def place(topic: object = "T", queue_id: object = 1, more: str = "") -> str:
    return PLACE.format(topic, queue_id) + more


def test_a_message_that_was_delayed(store: Store) -> None:
    sources = [put(store, place(more="\x02TAGS\x01x\x02KEYS\x01a  b\x02WAIT\x01true")),
               put(store, place("U", 17))]  # fmt: skip
    remade = store.remake(LEVELS, sources, WALL)
    assert remade is not None
    assert len(remade) == 1
    (draft,) = remade
    assert draft is remade[0]
    assert remade[:1] == remade.drafts()
    assert (draft.topic, draft.queue_id, draft.body) == ("T", 1, b"b")
    assert draft.properties.decode() == place(more="\x02TAGS\x01x\x02KEYS\x01a  b\x02WAIT\x01false")
    assert (draft.keys, draft.flag, draft.reconsume_times) == (("K", "a", "b"), 3, 2)
    assert (draft.born_host, draft.prepared_offset) == (HOST, 0)
    assert store.append_run(remade.run, WALL) == store.pointers.appended
    remade = store.remake(LEVELS, sources[1:], WALL)  # whose topic it learns now
    assert remade is not None
    assert remade[0].topic == "U"
    remade = store.remake(LEVELS, sources[::-1], WALL)
    assert remade is not None
    assert len(remade) == 2
    assert store.append_run(remade.run, WALL)
    assert store.verify().problems == []
    found = store.read_queue("U", 17, 0, 9, 1 << 20)
    assert [m.body for m in record.decode_all(b"".join(found.chunks))] == [b"b"]


@pytest.mark.parametrize(
    "text",
    [
        "UNIQ_KEY\x01K\x02REAL_QID\x011",
        "UNIQ_KEY\x01K\x02REAL_TOPIC\x01T",
        place(queue_id="x"),
        place(queue_id="-1"),
        place(queue_id=QUEUES_MAX),
        place(queue_id="0000000001"),
        place("a b"),
        place("x" * 200),
        place(HALF_TOPIC),
        place(SCHEDULE_TOPIC),
        place(TIMER_TOPIC),
        place("rmq_sys_REVIVE_LOG_c"),
        place(more="\x02a\x01"),
        place(more="\x02\x02a\x01b"),
        place(more="\x02a\x01b\x02a\x01c"),
        place(more="\x02__SINK_ID\x01x"),
        place(more="".join(f"\x02{n}\x01x" for n in range(50))),
    ],
)
def test_what_is_left_to_python(store: Store, text: str) -> None:
    assert store.remake(LEVELS, [put(store, text)], WALL) is None


def test_records_that_are_not_what_they_are_taken_for(store: Store) -> None:
    offset, size, more = put(store, place())
    put(store, place())
    assert store.remake(LEVELS, [(offset, size, more)], WALL) is not None
    for wrong in ((offset + 1, size, more), (offset, size - 1, more), (offset, 2 * size, more),
                  (offset, 5, more), (1 << 40, size, more), (-5, size, more)):  # fmt: skip
        assert store.remake(LEVELS, [wrong], WALL) is None
    assert store.remake(TIMED, [(offset, size, more)], WALL) is None
    assert store.remake(LEVELS, [put(store, place(), host=bytes(16) + HOST[4:])], WALL) is None


def test_nothing_is_made_beyond_what_may_be_read() -> None:
    store = Store.open(SimDisk(), StoreOptions(sync_flush=True, **SMALL), HOST, WALL)
    source = put(store, place())
    assert store.remake(LEVELS, [source], WALL) is None
    store.sync()
    assert store.remake(LEVELS, [source], WALL) is not None


@pytest.mark.parametrize(
    ("asked", "due"),
    [
        ("TIMER_OUT_MS\x01{0}", 1),
        ("TIMER_OUT_MS\x01{0}\x02TIMER_DELIVER_MS\x01{1}", 500),
        ("TIMER_OUT_MS\x01{0}\x02TIMER_DELAY_MS\x017000", 1000),
        ("TIMER_OUT_MS\x01{0}\x02TIMER_DELAY_SEC\x011", 1),
    ],
)
def test_none_for_an_exact_time_goes_out_early(store: Store, asked: str, due: int) -> None:
    out = WALL + 5000
    more = "\x02" + asked.format(out, out + 500)
    source = put(store, place(more=more), topic=TIMER_TOPIC)
    assert store.remake(TIMED, [source], out + due - 1) is None
    remade = store.remake(TIMED, [source], out + due)
    assert remade is not None
    assert (
        remade[0]
        .properties.decode()
        .endswith(
            f"\x02TIMER_ENQUEUE_MS\x01{WALL}\x02TIMER_DEQUEUE_MS\x01{out + due}\x02WAIT\x01false"
        )
    )
    rolled = put(store, place(more=f"{more}\x02TIMER_ROLL_TIMES\x011"), topic=TIMER_TOPIC)
    assert store.remake(TIMED, [rolled], out + due) is None


def test_more_topics_than_there_is_room_for(store: Store) -> None:
    for number in range(1100):
        source = put(store, place(f"T{number}", QUEUES_LEAST if number == 7 else 1))
        remade = store.remake(LEVELS, [source], WALL)
        assert remade is not None
        assert remade[0].topic == f"T{number}"
    assert store.remake(LEVELS, [put(store, place("T7", 0))], WALL) is not None
    wide = put(store, place("T7", QUEUES_MAX - 1))
    remade = store.remake(LEVELS, [wide], WALL)
    assert remade is not None
    assert remade[0].queue_id == QUEUES_MAX - 1


def test_what_does_not_fit_comes_with_the_next(store: Store) -> None:
    sources = [put(store, place(), body=bytes(100_000)) for _ in range(9)]
    first = store.pointers.appended // (1 << 20) * (1 << 20)
    inside = [source for source in sources if source[0] < first]
    remade = store.remake(LEVELS, sources, WALL)
    assert remade is not None
    assert len(remade) == len(inside or sources)
