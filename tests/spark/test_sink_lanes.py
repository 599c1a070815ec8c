"""Rows to requests: every row once, in the order of its lane, and the same way every time."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import UsageError
from epochmq.client.core.queue_selector import by_key
from epochmq.model.batch import decode as decode_batch
from epochmq.model.properties import decode
from epochmq.model.queue import MessageQueue
from epochmq.spark.encode import Row
from epochmq.spark.sink_lanes import Identity, Lane, Request, TopicLanes, seq_of, spread

QUEUES = [MessageQueue("T", broker, at) for broker in ("b", "a") for at in range(2)]
IDENTITY = Identity("sink", 4, 3)


def row(number: int, key: str | None = None, queue_id: int | None = None, **more: object) -> Row:
    broker = more.get("broker")
    body = more.get("body", b"%d" % number)
    assert isinstance(body, bytes)
    assert broker is None or isinstance(broker, str)
    return Row("T", body, "a\x01b", key, queue_id, broker, 0, more.get("alone") is True, number)


def lanes(identity: Identity = IDENTITY, *, rows: int = 3, size: int = 10, marked: bool = True):  # type: ignore[no-untyped-def]
    return TopicLanes(spread(QUEUES), identity, rows_max=rows, bytes_max=size, marked=marked)


def requests(topic: TopicLanes, rows: list[Row]) -> list[tuple[Lane, Request]]:
    found = [pair for each in rows for pair in topic.put(each)]
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


def test_rows_without_a_key_fill_one_request_after_another() -> None:
    made = requests(lanes(), [row(n) for n in range(8)])
    assert [(lane.queue, request.first_row, request.last_row) for lane, request in made] == [
        (MessageQueue("T", "b", 1), 0, 2),  # partition 3 begins at the fourth queue
        (MessageQueue("T", "a", 0), 3, 5),
        (MessageQueue("T", "a", 1), 6, 7),
    ]
    assert [request.size for _, request in made] == [3, 3, 2]


def test_what_brokers_know_repeats_by() -> None:
    lane, request = requests(lanes(), [row(0), row(1)])[0]
    (_, first), (_, second) = messages(request)
    mark = spread(QUEUES).mark
    assert first == {
        "a": "b",
        "UNIQ_KEY": request.ids[0],
        "__SINK_ID": f"sink@{mark}",
        "__SINK_BATCH": "4",
        "__SINK_PART": str(3 * 4 + 3),
        "__SINK_SEQ": "1",
    }
    assert second["__SINK_SEQ"] == "2"
    assert [seq_of(each, lane.prefix) for each in request.ids] == [1, 2]
    assert request.queue == lane.queue


def test_at_least_once_sends_ids_only_and_to_any_queue() -> None:
    free, fixed = requests(lanes(marked=False), [row(0), row(1), row(2), row(3, queue_id=0)])
    assert free[1].queue is None
    assert fixed[1].queue == fixed[0].queue
    assert all(set(pairs) == {"a", "UNIQ_KEY"} for _, pairs in messages(free[1]))


def test_bytes_end_a_request_and_a_row_alone_is_one() -> None:
    rows = [
        row(0, body=b"x" * 6),
        row(1, body=b"y" * 6),
        row(2, alone=True),
        row(3, body=b"z" * 50),
    ]
    made = [request for _, request in requests(lanes(), rows)]
    assert [(request.first_row, request.is_batch) for request in made] == [
        *((0, False), (1, False), (2, False), (3, False)),
    ]


def test_a_row_may_say_its_queue() -> None:
    topic = lanes()
    rows = [row(0, queue_id=1, broker="b"), row(1, queue_id=1), row(2, queue_id=0, broker="gone")]
    where = {r.first_row: lane.queue for lane, r in requests(topic, rows)}
    assert where[0] == MessageQueue("T", "b", 1)
    assert where[2] == MessageQueue("T", "a", 0)
    with pytest.raises(UsageError, match="row 5: topic T has no queue 2, only 0 to 1"):
        list(topic.put(row(5, queue_id=2)))


def test_another_layout_batch_or_row_before_gives_other_ids() -> None:
    def ids(identity: Identity, rows: list[Row], queues: list[MessageQueue]) -> list[str]:
        topic = TopicLanes(spread(queues), identity, rows_max=9, bytes_max=99, marked=True)
        return requests(topic, rows)[0][1].ids

    rows = [row(0), row(1)]
    plain = ids(IDENTITY, rows, QUEUES[:1])
    assert plain == ids(IDENTITY, [row(0), row(1)], QUEUES[:1])
    for other in (
        ids(Identity("other", 4, 3), rows, QUEUES[:1]),
        ids(Identity("sink", 5, 3), rows, QUEUES[:1]),
        ids(Identity("sink", 4, 2), rows, QUEUES[:1]),
        ids(IDENTITY, rows, QUEUES[1:2]),
        ids(IDENTITY, [row(9), row(1)], QUEUES[:1]),
    ):
        assert not set(other) & set(plain)
    assert all(len(each) == 32 and each == each.upper() for each in plain)


@pytest.mark.parametrize("text", ["", "x", "A" * 12 + "Z" * 20, "B" * 32])
def test_other_ids_have_no_number(text: str) -> None:
    assert seq_of(text, "A" * 12) is None


_keys = st.one_of(st.none(), st.sampled_from("abcdef"))
_rows = st.lists(st.tuples(_keys, st.binary(min_size=1, max_size=12), st.booleans()), max_size=60)


@given(_rows, st.integers(1, 5), st.integers(1, 30), st.booleans())
def test_every_row_once_in_order_and_always_alike(
    drawn: list[tuple[str | None, bytes, bool]], rows_max: int, bytes_max: int, marked: bool
) -> None:
    rows = [row(n, key, body=body, alone=alone) for n, (key, body, alone) in enumerate(drawn)]
    made = requests(lanes(rows=rows_max, size=bytes_max, marked=marked), rows)
    again = requests(lanes(rows=rows_max, size=bytes_max, marked=marked), rows)
    assert [request for _, request in made] == [request for _, request in again]

    next_seq: dict[int, int] = defaultdict(lambda: 1)
    for lane, request in made:
        assert request.first_seq == next_seq[lane.part]
        next_seq[lane.part] += len(request.ids)
        assert len(request.ids) <= rows_max
        assert len(request.ids) == 1 or request.size <= bytes_max
    sent = [pairs["UNIQ_KEY"] for _, r in made for _, pairs in messages(r)]
    assert len(set(sent)) == len(sent) == len(rows)

    by_lane: dict[int, list[bytes]] = defaultdict(list)
    for lane, request in made:
        by_lane[lane.part] += [body for body, _ in messages(request)]
    for key in "abcdef":
        part = IDENTITY.partition * 4 + spread(QUEUES).queues.index(
            by_key(spread(QUEUES).queues, key)
        )
        wanted = [each.body for each in rows if each.key == key]
        left = iter(by_lane[part])
        assert all(body in left for body in wanted)  # a subsequence: the key's order is kept
