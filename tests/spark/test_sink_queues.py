"""Rows to requests: every row once, in the order of its sink queue, and the same way every time."""

from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from epochmq.base.errors import UsageError
from epochmq.client.core.send_policy import by_key
from epochmq.model.batch import decode as decode_batch
from epochmq.model.properties import decode
from epochmq.model.sink_mark import mark_of
from epochmq.model.topic import MessageQueue
from epochmq.spark import sink_queues
from epochmq.spark.encode import SinkRow
from epochmq.spark.sink_queues import (
    PartitionId,
    Request,
    RequestBuilder,
    SinkQueue,
    SinkQueues,
    spread,
)

QUEUES = [MessageQueue("T", broker, at) for broker in ("b", "a") for at in range(2)]
IDENTITY = PartitionId("sink", 4, 3)


def row(
    number: int, key: str | None = None, queue_id: int | None = None, **more: object
) -> SinkRow:
    broker = more.get("broker")
    body = more.get("body", b"%d" % number)
    assert isinstance(body, bytes)
    assert broker is None or isinstance(broker, str)
    return SinkRow("T", body, "a\x01b", key, queue_id, broker, 0, more.get("alone") is True, number)


def new_queues(
    identity: PartitionId = IDENTITY, *, rows: int = 3, size: int = 10, marked: bool = True
) -> SinkQueues:
    return SinkQueues(spread(QUEUES), identity, RequestBuilder(rows, size, marked))


def requests(topic: SinkQueues, rows: list[SinkRow]) -> list[tuple[SinkQueue, Request]]:
    count, found = topic.put(rows, 1 << 40)
    assert count == len(rows)
    return [*found, *topic.rest()]


def messages(request: Request) -> list[tuple[bytes, dict[str, str]]]:
    if not request.is_batch:
        return [(request.outgoing.body, decode(request.outgoing.properties))]
    entries = decode_batch(request.outgoing.body)
    return [(each.body, decode(each.properties.decode())) for each in entries]


def test_queues_are_in_the_order_that_producers_use() -> None:
    names = [(queue.broker_name, queue.queue_id) for queue in spread(QUEUES).queues]
    assert names == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    with pytest.raises(UsageError, match="no queue that may be written"):
        spread([])


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of five rows."""
    monkeypatch.setattr(sink_queues, "GROUP_ROWS", 5)


@pytest.mark.usefixtures("small_groups")
def test_rows_without_a_key_fill_one_queue_after_another() -> None:
    made = requests(new_queues(), [row(n) for n in range(8)])
    assert [
        (sink_queue.queue, request.first_row, request.last_row) for sink_queue, request in made
    ] == [
        (MessageQueue("T", "b", 1), 0, 2),  # partition 3 of batch 4: the fourth queue is first
        (MessageQueue("T", "b", 1), 3, 4),
        (MessageQueue("T", "a", 0), 5, 7),
    ]
    assert [request.size for _, request in made] == [3, 2, 3]
    following = PartitionId("sink", 5, 3)
    assert requests(new_queues(following), [row(0)])[0][0].queue == MessageQueue("T", "a", 0)


@pytest.mark.usefixtures("small_groups")
def test_what_brokers_know_repeats_by() -> None:
    made = requests(new_queues(), [row(n, queue_id=1, broker="b") for n in range(7)])
    found = [pairs for _, request in made for _, pairs in messages(request)]
    mark = spread(QUEUES).mark
    assert (
        found[0].items()
        >= {
            "a": "b",
            "__SINK_ID": f"sink@{mark}",
            "__SINK_BATCH": "4",
            "__SINK_PART": str(3 * 4 + 3),
        }.items()
    )
    numbers = [int(pairs["__SINK_SEQ"]) for pairs in found]
    assert [number & 0xFFF for number in numbers] == [0, 1, 2, 3, 4, 0, 1]
    assert {number >> 12 for number in numbers[:5]} == {numbers[0] >> 12}
    assert [number >> 44 for number in numbers] == [0] * 5 + [1] * 2
    assert all(mark_of("T", pairs) is not None for pairs in found)


def test_numbers_never_have_more_digits_than_brokers_read() -> None:
    assert len(str((sink_queues._GROUP_MASK << 32 | 0xFFFFFFFF) << 12 | 0xFFF)) == 18
    assert sink_queues.GROUP_ROWS == 1 << 12


def test_at_least_once_sends_ids_only_and_to_any_queue() -> None:
    made = requests(new_queues(marked=False), [row(0), row(1), row(2), row(3, queue_id=0)])
    (_, free), (sink_queue, fixed) = sorted(made, key=lambda pair: pair[1].first_row)
    assert free.queue is None
    assert fixed.queue == sink_queue.queue
    assert all(set(pairs) == {"a", "UNIQ_KEY"} for _, pairs in messages(free))


def test_bytes_end_a_request_and_a_row_alone_is_one() -> None:
    small = [row(0, body=b"x" * 6), row(1, body=b"y" * 6)]
    rows = [*small, row(2, alone=True), row(3, body=b"z" * 50), row(4), row(5)]
    made = [request for _, request in requests(new_queues(), rows)]
    assert [(request.first_row, request.is_batch) for request in made] == [
        (0, False),
        (1, False),
        (2, False),
        (3, False),
        (4, True),
    ]


def test_a_row_may_say_its_queue() -> None:
    topic = new_queues()
    rows = [row(0, queue_id=1, broker="b"), row(1, queue_id=1), row(2, queue_id=0, broker="gone")]
    where = {r.first_row: sink_queue.queue for sink_queue, r in requests(topic, rows)}
    assert where[0] == MessageQueue("T", "b", 1)
    assert where[2] == MessageQueue("T", "a", 0)
    with pytest.raises(UsageError, match="row 5: topic T has no queue 2, only 0 to 1"):
        topic.put([row(5, queue_id=2)], 0)


def told(
    identity: PartitionId, rows: list[SinkRow], queues: list[MessageQueue]
) -> tuple[list[str], list[str]]:
    """(ids, numbers) of rows on their way to one queue."""
    topic = SinkQueues(spread(queues), identity, RequestBuilder(9, 99, True))
    pairs = [each for _, request in requests(topic, rows) for _, each in messages(request)]
    return [each["UNIQ_KEY"] for each in pairs], [each["__SINK_SEQ"] for each in pairs]


def test_another_sink_batch_partition_or_layout_gives_other_ids() -> None:
    rows = [row(0), row(1)]
    ids, _ = told(IDENTITY, rows, QUEUES[:1])
    assert ids == told(IDENTITY, [row(0), row(1)], QUEUES[:1])[0]
    for other, _ in (
        told(PartitionId("other", 4, 3), rows, QUEUES[:1]),
        told(PartitionId("sink", 5, 3), rows, QUEUES[:1]),
        told(PartitionId("sink", 4, 2), rows, QUEUES[:1]),
        told(IDENTITY, rows, QUEUES[1:2]),
    ):
        assert not set(other) & set(ids)
    assert all(len(each) == 32 and each == each.upper() for each in ids)


def test_other_rows_have_other_numbers_and_ids() -> None:
    rows = [row(0), row(1), row(2)]
    ids, numbers = told(IDENTITY, rows, QUEUES[:1])
    for changed in ([row(9), *rows[1:]], [rows[1], rows[0], rows[2]], rows[:2]):
        other_ids, other_numbers = told(IDENTITY, changed, QUEUES[:1])
        assert not set(other_numbers) & set(numbers)
        if len(changed) == len(rows):
            assert not set(other_ids[:2]) & set(ids[:2])


@pytest.mark.usefixtures("small_groups")
def test_groups_before_a_change_keep_their_numbers() -> None:
    rows = [row(n) for n in range(10)]
    _, numbers = told(IDENTITY, rows, QUEUES[:1])
    _, changed = told(IDENTITY, [*rows[:9], row(77)], QUEUES[:1])
    assert changed[:5] == numbers[:5]
    assert not set(changed[5:]) & set(numbers)


_keys = st.one_of(st.none(), st.sampled_from("abcdef"))
_sizes = st.lists(st.tuples(st.integers(1, 40), st.booleans(), _keys), max_size=60)


@settings(max_examples=examples(200))
@given(
    _sizes,
    st.booleans(),
    st.lists(st.integers(1, 60), max_size=20),
    st.sampled_from([1 << 40, 120, 50, 0, -5]),
    st.sampled_from([(5, 1 << 40), (7, 60), (1, 60), (1 << 20, 40)]),
    st.integers(1, 4),
    st.integers(1, 70),
)
def test_rows_are_put_alike_one_by_one_and_many_at_once(
    drawn: list[tuple[int, bool, str | None]],
    is_keyed: bool,
    cuts: list[int],
    room: int,
    group: tuple[int, int],
    rows_max: int,
    bytes_max: int,
) -> None:
    """Where groups, requests and the buffer end must not depend on how rows arrive."""
    rows = [
        row(n, key if is_keyed else None, body=b"%d" % n * size, alone=alone)
        for n, (size, alone, key) in enumerate(drawn)
    ]

    def fed(pieces: list[list[SinkRow]]) -> list[Request]:
        topic, found = new_queues(rows=rows_max, size=bytes_max), []
        for piece in pieces:
            while piece:
                count, ready = topic.put(piece, room)
                found += [request for _, request in ready]
                assert count == len(piece) or topic.size > room
                if topic.size > room:
                    found += [request for _, request in topic.rest()]
                piece = piece[count:]
        found += [request for _, request in topic.rest()]
        assert topic.size == 0
        return found

    borders = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sink_queues, "GROUP_ROWS", group[0])
        patch.setattr(sink_queues, "GROUP_BYTES", group[1])
        many = fed([rows[low:high] for low, high in pairwise(borders)])
        assert many == fed([[each] for each in rows])
        patch.setattr(SinkQueues, "_put_slices", SinkQueues._put_each)
        patch.setattr(SinkQueues, "_put_together", lambda *_: False)
        assert many == fed([rows])


_rows = st.lists(st.tuples(_keys, st.binary(min_size=1, max_size=12), st.booleans()), max_size=60)


@given(_rows, st.integers(1, 5), st.integers(1, 30), st.booleans())
def test_every_row_once_in_order_and_always_alike(
    drawn: list[tuple[str | None, bytes, bool]], rows_max: int, bytes_max: int, marked: bool
) -> None:
    rows = [row(n, key, body=body, alone=alone) for n, (key, body, alone) in enumerate(drawn)]

    def make() -> list[tuple[SinkQueue, Request]]:
        return requests(new_queues(rows=rows_max, size=bytes_max, marked=marked), rows)

    made = make()
    assert [request for _, request in made] == [request for _, request in make()]
    for _, request in made:
        count = len(messages(request))
        assert count <= rows_max
        assert count == 1 or request.size <= bytes_max
    sent = [pairs for _, r in made for _, pairs in messages(r)]
    assert len({pairs["UNIQ_KEY"] for pairs in sent}) == len(sent) == len(rows)
    if marked:
        marks = {mark_of("T", pairs) for pairs in sent}
        assert len(marks) == len(rows)

    queues = spread(QUEUES).queues
    by_send_topic: dict[int, list[bytes]] = defaultdict(list)
    for sink_queue, request in made:
        by_send_topic[sink_queue.part] += [body for body, _ in messages(request)]
    for key in "abcdef":
        part = IDENTITY.partition * 4 + queues.index(by_key(queues, key))
        wanted = [each.body for each in rows if each.key == key]
        left = iter(by_send_topic[part])
        assert all(body in left for body in wanted)  # a subsequence: the key's order is kept
