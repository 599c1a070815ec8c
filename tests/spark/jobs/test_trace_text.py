"""Trace bodies as clients of several versions write them."""

from hypothesis import given
from hypothesis import strategies as st

from epochmq.spark.jobs.trace_text import AFTER, BEFORE, PUB, Traced, parse, rows_of


def context(*fields: object) -> str:
    return "\x01".join(map(str, fields)) + "\x02"


PUB_5 = context(
    PUB,
    1700000000000,
    "DefaultRegion",
    "shop",
    "orders",
    "ID1",
    "paid",
    "k1 k2",
    "127.0.0.1:10911",
    12,
    3,
    0,
    "7F00000100002A9F0000000000000102",
    "true",
    "127.0.0.1",
)
PUB_4 = context(
    PUB,
    1700000000000,
    "DefaultRegion",
    "shop",
    "orders",
    "ID1",
    "null",
    "",
    "127.0.0.1:10911",
    12,
    3,
    0,
    "false",
)
BEFORE_5 = context(BEFORE, 1700000000100, "null", "billing", "REQ1", "ID1", 2, "k1 k2")
AFTER_5 = context(AFTER, "REQ1", "ID1", 7, "true", "k1 k2", 0, 1700000000107, "billing")
AFTER_4 = context(AFTER, "REQ1", "ID1", 7, "false", "k1", 1)


def test_what_a_producer_and_a_consumer_say() -> None:
    pub = Traced(PUB, 1700000000000, "shop", "orders", "ID1", None, 0, 3, None)
    assert list(parse(PUB_5 + BEFORE_5 + AFTER_5)) == [
        pub._replace(ok=True),
        Traced(BEFORE, 1700000000100, "billing", None, "ID1", "REQ1", 2, -1, None),
        Traced(AFTER, 1700000000107, "billing", None, "ID1", "REQ1", 0, 7, True),
    ]


def test_older_clients_say_less() -> None:
    assert [each.ok for each in parse(PUB_4 + AFTER_4)] == [False, False]
    without_client = PUB_5.replace("\x01127.0.0.1\x02", "\x02")
    assert [each.ok for each in parse(without_client)] == [True]
    after = next(iter(parse(AFTER_4)))
    assert (after.at, after.client_group, after.cost) == (-1, None, 7)


def test_other_contexts_and_rubbish_are_no_rows() -> None:
    assert list(parse(context("EndTransaction", *range(12)) + "Pub\x011\x02" + "SubAfter")) == []


@given(st.text(alphabet="PubS\x01\x02 1efortA", max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    for row in parse(text):
        assert row.kind in (PUB, BEFORE, AFTER)


def test_a_message_without_a_body_has_no_rows() -> None:
    assert [row.msg_id for row in rows_of(bytearray(PUB_5.encode() + b"\xff"))] == ["ID1"]
    assert rows_of(None) == rows_of(b"") == []
