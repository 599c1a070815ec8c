"""Trace bodies as clients of several versions write them."""

from hypothesis import given
from hypothesis import strategies as st

from epochmq.client.core.trace_text import (
    AFTER,
    BEFORE,
    PUB,
    Traced,
    TracedMessage,
    after_text,
    before_text,
    end_transaction_text,
    parse,
    pub_text,
    rows_of,
)


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


# Writing -------------------------------------------------------------------------------------

MESSAGE = TracedMessage("orders", "ID1", "paid", ("k1", "k2"), 12, 2)


def test_what_is_written_is_what_rocketmqs_clients_write() -> None:
    told = pub_text(
        MESSAGE,
        wall_ms=1700000000000,
        region=None,
        group="shop",
        store_host="127.0.0.1:10911",
        cost_ms=3,
        kind=0,
        offset_msg_id="7F00000100002A9F0000000000000102",
        is_stored=True,
    )
    assert told == PUB_5.removesuffix("\x01127.0.0.1\x02") + "\x02"
    before = before_text(
        MESSAGE, wall_ms=1700000000100, region=None, group="billing", request_id="REQ1"
    )
    assert before == BEFORE_5
    after = after_text(
        MESSAGE,
        wall_ms=1700000000107,
        group="billing",
        request_id="REQ1",
        cost_ms=7,
        is_done=True,
        code=0,
    )
    assert after == AFTER_5
    end = end_transaction_text(
        MESSAGE,
        wall_ms=1700000000000,
        group="shop",
        store_host="127.0.0.1:10911",
        kind=2,
        transaction_id="ID1",
        state="COMMIT_MESSAGE",
        is_answer_to_check=False,
    )
    assert end == context(
        "EndTransaction", 1700000000000, "DefaultRegion", "shop", "orders", "ID1", "paid", "k1 k2",
        "127.0.0.1:10911", 2, "ID1", "COMMIT_MESSAGE", "false",
    )  # fmt: skip


@given(st.text(), st.text(), st.lists(st.text(), max_size=3), st.booleans())
def test_no_text_of_an_application_breaks_the_trace(
    msg_id: str, tags: str, keys: list[str], is_stored: bool
) -> None:
    message = TracedMessage("orders", msg_id, tags, tuple(keys))
    told = pub_text(
        message,
        wall_ms=1,
        region="r",
        group="g",
        store_host="h:1",
        cost_ms=2,
        kind=0,
        offset_msg_id=None,
        is_stored=is_stored,
    )
    (read,) = parse(told)
    assert (read.kind, read.client_group, read.topic, read.ok) == (PUB, "g", "orders", is_stored)
    assert read.msg_id == msg_id.replace("\x01", " ").replace("\x02", " ")
