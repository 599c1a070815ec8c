"""Half messages, delayed ones, ends and deliveries by the native code: the same as in Python."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.broker.produce.native_pairs import Pair
from tests.broker.requests.put_aside import (
    HALF_TEXT,
    answers,
    close,
    half,
    halves,
    message,
    opened,
    settle,
    taken,
)
from tests.broker.transaction.around import end
from tests.tiers import examples

from epochmq.model.sys_flag import TX_PREPARED
from epochmq.native import library

pytestmark = pytest.mark.skipif(library.library() is None, reason=library.which())


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = opened()
    yield made
    close(made)


PUT_ASIDE = [
    "DELAY\x011",
    "DELAY\x0118\x02KEYS\x01a b\x02TAGS\x01red\x02",
    "DELAY\x0199",
    "WAIT\x01true\x02DELAY\x01007",
    "TIMER_DELAY_SEC\x015",
    "TIMER_DELAY_MS\x01777\x02TAGS\x01x",
    "TIMER_DELIVER_MS\x011700000003001",
    "TIMER_DELAY_MS\x015\x02TIMER_DELAY_SEC\x011\x02TIMER_DELIVER_MS\x011700000003001\x02",
    HALF_TEXT,
    f"{HALF_TEXT}\x02KEYS\x01k1 k2\x02TAGS\x01red\x02",
    f"CHECK_IMMUNITY_TIME_IN_SECONDS\x017\x02{HALF_TEXT}\x02a\x01\x01b",
]
PYTHONS = [
    "DELAY\x010",
    "DELAY\x01-1",
    "DELAY\x01x",
    "DELAY\x011\x02CLUSTER\x01x",
    "DELAY\x011\x02REAL_TOPIC\x01x",
    "DELAY\x011\x02__ESCAPE_ID\x01x@y",
    "DELAY\x011\x02TIMER_DELAY_SEC\x011",
    "TIMER_DELAY_SEC\x01+5",
    "TIMER_DELAY_SEC\x0199999999999",
    "TIMER_DELAY_SEC\x010",
    "TIMER_DELIVER_MS\x011",
    "TIMER_DELIVER_MS\x01soon",
    "TIMER_DELAY_SEC\x011\x02TIMER_OUT_MS\x015",
    "TIMER_DELAY_SEC\x011\x02TIMER_DEL_UNIQKEY\x01k",
    "TRAN_MSG\x01TRUE\x02PGROUP\x01PG",
    "TRAN_MSG\x01true",
    f"{HALF_TEXT}\x02DELAY\x011",
    f"{HALF_TEXT}\x02REAL_QID\x011",
    f"{HALF_TEXT}\x02\x02a\x01b",
    f"{HALF_TEXT}\x02a\x01",
    f"{HALF_TEXT}\x02a\x01b\x02a\x01c",
    f"{HALF_TEXT}\x02a\x01" + "x" * 32_500,
]


@pytest.mark.parametrize("more", PUT_ASIDE)
@pytest.mark.parametrize("topic", ["T", "Wide"])
def test_put_aside_by_native_code(pair: Pair, more: str, topic: str) -> None:
    flag = TX_PREPARED if "TRAN_MSG" in more else 0
    assert taken(pair, 0, message(7, more, topic=topic, queue_id=1, sysFlag=flag))
    ((answer, *_), *_) = [told for told in pair.turn() if told]
    assert dict(answer[3])["queueId"] == "1"  # type: ignore[call-overload]
    settle(pair, 10_000)
    for harness in pair.harnesses:
        harness.sink.stage.count_sent()
        assert harness.node.stats.put.total == 3
    settle(pair, 8_000_000)


@pytest.mark.parametrize("more", PYTHONS)
def test_left_to_python(pair: Pair, more: str) -> None:
    flag = TX_PREPARED if "TRAN_MSG" in more else 0
    assert not taken(pair, 0, message(7, more, sysFlag=flag))
    pair.turn()
    settle(pair, 10_000)


@pytest.mark.parametrize(
    "options",
    [
        {"reject_transaction_message": True},
        {"timer_congest_num_each_slot": 5},
        {"timer_max_delay_sec": 3},
    ],
)
def test_what_options_forbid_is_left_to_python(options: dict[str, object]) -> None:
    pair = opened(**options)
    made = [message(8, "TIMER_DELAY_SEC\x015"), half(9)]
    assert not taken(pair, 0, *made)
    pair.turn()
    close(pair)


def test_a_file_that_ends_between() -> None:
    """What the log cannot take as one run is appended as the drafts that it stands for.

    What is due and lies in two files is delivered by two ticks, so the order of queues differs.
    """
    pair = opened()
    opaque = 100
    for _ in range(3):
        for _ in range(40):
            opaque += 4
            made = [
                half(opaque),
                message(opaque + 1, "DELAY\x011"),
                message(opaque + 2, "TIMER_DELAY_SEC\x012"),
                message(opaque + 3, "a\x01b"),
            ]
            for one in made:
                one.body = bytes(5_000)
            assert taken(pair, 0, *made[:3])
            ends = [end(a, oneway=True) for a in answers(pair) if a.opaque == opaque]
            assert taken(pair, 1, *ends)
            pair.turn()
        settle(pair, 3_000)
    for _ in range(8):
        settle(pair)
    check_alike(pair)


@settings(max_examples=examples(15))
@given(st.integers(0, 2**32), st.booleans())
@example(seed=12842, sync=True)  # a message for an exact time is delivered a tick apart
def test_both_leave_the_same(seed: int, sync: bool) -> None:
    rng = Random(seed)
    pair = opened(flush_disk_type="SYNC_FLUSH" if sync else "ASYNC_FLUSH")
    opaque, open_halves = 100, []
    for _ in range(rng.randrange(3, 12)):
        for number in rng.sample(range(3), rng.randrange(1, 3)):
            made = []
            for _ in range(rng.randrange(1, 6)):
                opaque += 1
                if open_halves and rng.random() < 0.5:
                    answer = open_halves.pop(rng.randrange(len(open_halves)))
                    made.append(end(answer, rng.choice((8, 8, 12)), oneway=rng.random() < 0.9))
                    made[-1].opaque = opaque
                    continue
                more = rng.choice(PUT_ASIDE if rng.random() < 0.8 else PYTHONS)
                flag = TX_PREPARED if "TRAN_MSG" in more else 0
                topic = rng.choice(("T", "T", "T", "Wide", "New"))
                made.append(message(opaque, more, topic=topic, queue_id=1, sysFlag=flag))
            taken(pair, number, *made)
            if pair.native.sink.stage.has_drafts:
                break
        open_halves += halves(pair)
        if rng.random() < 0.3:
            settle(pair, rng.choice((0, 1_000, 7_000)))
    settle(pair, 20_000)
    for _ in range(8):  # what Python has to look at takes the native code's broker a tick more
        settle(pair)
    check_alike(pair)


def check_alike(pair: Pair) -> None:
    """Both have the same messages, and nothing contradicts itself."""
    kept = [
        [
            [
                repr((n, m.body, {**m.properties, "TIMER_DEQUEUE_MS": ""}, m.sys_flag))
                for n in range(4)
                for m in harness.stored(topic, n)
            ]
            for topic in ("T", "Wide")
        ]
        for harness in pair.harnesses
    ]  # which tick delivers is theirs
    assert [sorted(one) for one in kept[0]] == [sorted(one) for one in kept[1]]
    for harness in pair.harnesses:
        assert harness.store.verify().problems == []
